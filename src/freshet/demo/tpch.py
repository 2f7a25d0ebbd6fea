"""TPC-H: the schema, the 22 queries, and tables generated once per scale factor into a cache folder.

The folder appears only when it is complete: it is written under another name and renamed, so two processes may
generate at once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from freshet.demo.scenario import Scenario
from freshet.errors import StateError

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
MOVING = ("orders", "lineitem")


def schema() -> str:
    return files("freshet.demo").joinpath("tpch.sql").read_text()


def queries() -> dict[str, str]:
    """The 22 queries with the standard's validation values, ORDER BY left out where no LIMIT needs it."""
    folder = files("freshet.demo").joinpath("queries")
    return {f"Q{n}": folder.joinpath(f"q{n:02}.sql").read_text() for n in range(1, 23)}


def scenario(scale: float) -> Scenario:
    """Orders are inserted and deleted with their lines, in order of the order date."""
    tables = generate(scale)
    orders = tables["orders"].sort_by([("o_orderdate", "ascending"), ("o_orderkey", "ascending")])
    unit = pc.index_in(tables["lineitem"]["l_orderkey"], orders["o_orderkey"]).to_numpy().astype(np.int64)
    by_unit = np.argsort(unit, kind="stable")
    return Scenario(
        "tpch",
        schema(),
        queries(),
        orders.num_rows,
        {"orders": orders, "lineitem": tables["lineitem"].take(by_unit)},
        {"orders": np.arange(orders.num_rows), "lineitem": unit[by_unit]},
        {name: _keyed(tables[name]) if name == "partsupp" else tables[name] for name in TABLES if name not in MOVING},
    )


def _keyed(partsupp: pa.Table) -> pa.Table:
    """Keeps each key once: at tiny scales the generator repeats some."""
    keys = partsupp.select(["ps_partkey", "ps_suppkey"]).append_column("row", pa.array(range(partsupp.num_rows)))
    first = keys.group_by(["ps_partkey", "ps_suppkey"]).aggregate([("row", "min")])
    return partsupp.take(first.column("row_min"))


def generate(scale: float, tables: Iterable[str] = TABLES, cache: Path | None = None) -> dict[str, pa.Table]:
    """The tables at a scale factor, generated on first use."""
    folder = (cache or _cache()) / f"sf{scale:g}"
    if not folder.is_dir():
        _write(folder, scale)
    return {name: _read(folder / f"{name}.parquet") for name in tables}


def _cache() -> Path:
    given = os.environ.get("FRESHET_TPCH")
    return (
        Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "freshet" / "tpch"
    )


def _write(folder: Path, scale: float) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        command = [generator(), "parquet", "-s", f"{scale:g}", "-o", f"{fresh}/tables"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise StateError(f"the TPC-H tables cannot be generated: {done.stderr.strip() or done.returncode}")
        try:
            os.rename(f"{fresh}/tables", folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was first, with the same tables
                raise


def generator() -> str:
    beside_python = Path(sys.executable).parent / "tpchgen-cli"
    program = str(beside_python) if beside_python.exists() else shutil.which("tpchgen-cli")
    if program is None:
        raise StateError("tpchgen-cli, which generates the TPC-H tables, is not installed; pip install 'freshet[app]'")
    return program


def _read(path: Path) -> pa.Table:
    """Columns as the schema declares them: plain strings instead of views, and no field metadata."""
    table = pq.read_table(path)
    plain = pa.schema([(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in table.schema])
    return table.cast(plain).combine_chunks()
