"""The streams of all queries, written on first use into the repository's cache: a sliding window of a fifth, first in,
first out, over orders and their lines by date, or over the edges of a graph in random order."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import tpch
from benchmarks.papers.data import edges, real_edges, real_folder
from benchmarks.peers.queries import PeerQuery
from benchmarks.peers.stream import write_table
from benchmarks.streams import OrderWindow, TableWindow, order_window, table_window

WINDOW = 0.2
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class StreamSize:
    """TPC-H's scale factor, and the edges of the graph (None: all of wiki-Vote, or 100,000 generated ones)."""

    scale: float
    edges: int | None
    all_columns: bool = False

    def folder(self, name: str, query: PeerQuery) -> Path:
        cache = Path(os.environ.get("FRESHET_PEERS") or ROOT / ".cache" / "peers")
        if query.on_graph:
            return cache / f"graph-{self.edges or 'all'}{'-real' if real_folder() else ''}"
        return cache / f"{name}-{self.scale:g}-{'full' if self.all_columns else 'narrow'}"


def stream_folder(name: str, query: PeerQuery, size: StreamSize) -> tuple[Path, int, int]:
    """The folder of a query's stream, the changes until its window is full, and all changes."""
    folder = size.folder(name, query)
    described = folder / "stream.json"
    if not described.exists():
        folder.mkdir(parents=True, exist_ok=True)
        described.write_text(json.dumps(_write(folder, query, size)))
    fill, total = json.loads(described.read_text())
    return folder, fill, total


def _write(folder: Path, query: PeerQuery, size: StreamSize) -> tuple[int, int]:
    tables = _graph(size) if query.on_graph else _tpch(query, size)
    window = _window(tables, size)
    for name, table in tables.items():
        if name not in window.moving:
            write_table(folder, name, table, np.ones(table.num_rows), np.full(table.num_rows, -1))
    for name in window.moving:
        if isinstance(window, TableWindow):
            rows, positions = tables[name].take(window.row), np.arange(len(window))
            write_table(folder, name, rows, window.weight, positions)
        else:
            positions = np.flatnonzero(window.is_line if name == "lineitem" else ~window.is_line)
            columns = tables[name].column_names
            rows = getattr(window, name).select(columns).take(window.row[positions])
            write_table(folder, name, rows, window.weight[positions], positions)
    return int(np.argmax(window.weight < 0)), len(window)


def _graph(size: StreamSize) -> dict[str, pa.Table]:
    folder = real_folder()
    count = size.edges or (len(real_edges(folder)) if folder else 100_000)
    pairs = edges(count)
    return {"g": pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]})}


def _tpch(query: PeerQuery, size: StreamSize) -> dict[str, pa.Table]:
    tables = tpch.generate(size.scale, query.tables)
    for name, statement in zip(list(tables), query.ddl(size.all_columns), strict=True):
        declared = [line.split()[0] for line in statement.splitlines()[1:-1]]
        tables[name] = tables[name].select([c for c in tables[name].column_names if c in declared])
    return tables


def _window(tables: dict[str, pa.Table], size: StreamSize) -> OrderWindow | TableWindow:
    if "g" in tables:
        return table_window("g", tables["g"], WINDOW)
    both = tpch.generate(size.scale, ("orders", "lineitem"))
    return order_window(both["orders"], both["lineitem"], WINDOW).only(
        [t for t in ("orders", "lineitem") if t in tables]
    )
