"""Data for the ready-made jobs: `python -m examples.make_data tpch|graph|fraud|webshop [folder]`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from freshet.demo.scenarios import graph
from freshet.demo.tpch import generator

HERE = Path(__file__).parent


def tpch(folder: Path) -> None:
    """dbgen's tables at scale factor 0.001, one file each."""
    made = folder / "made"
    subprocess.run([generator(), "tbl", "-s", "0.001", "-o", str(made)], check=True, capture_output=True)
    for name in ("region", "nation", "supplier", "customer", "orders", "lineitem"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        os.replace(made / f"{name}.tbl", folder / name / "0.tbl")
    for rest in made.iterdir():
        rest.unlink()
    made.rmdir()


def edges(folder: Path) -> None:
    """A sliding window over a graph's edges, six files."""
    made = graph(0.001)
    (folder / "edge").mkdir(parents=True, exist_ok=True)
    units, weights = made.sequence("sliding", 0.5)
    keep = len(units) * 3 // 4
    for i, changes in enumerate(made.transactions(units[:keep], weights[:keep], 250)):
        _in_order(folder / "edge" / f"{i:03}.parquet", i, partial(pq.write_table, changes["edge"]))


def fraud(folder: Path) -> None:
    """Forty cards and their payments over two days, some of them cancelled."""
    draw = np.random.default_rng(7)
    cards = [{"id": i, "owner": f"owner {i}", "daily_limit": "900.00"} for i in range(40)]
    _lines(folder / "card" / "0.json", 0, cards)
    payments = [
        {
            "id": i,
            "card": int(draw.integers(0, 40)),
            "country": str(draw.choice(["DE", "FR", "PL", "IT"], p=[0.85, 0.05, 0.05, 0.05])),
            "amount": str(Decimal(int(draw.integers(100, 25_000))) / 100),
            "minute": int(draw.integers(0, 2_880)),
        }
        for i in range(600)
    ]
    for part in range(4):
        rows = [{**p, "_change_type": "insert"} for p in payments[part * 150 : (part + 1) * 150]]
        taken_back = payments[(part - 1) * 150 : (part - 1) * 150 + 20] if part else []
        _lines(folder / "payment" / f"{part}.json", part, rows + [{**p, "_change_type": "delete"} for p in taken_back])


def webshop(folder: Path) -> None:
    """A feed of upserts and deletes by key; one change is invalid, and is set aside."""
    draw, lsn = np.random.default_rng(3), 0
    feed: dict[str, list[dict[str, Any]]] = {"customer": [], "orders": [], "item": []}

    def change(table: str, kind: str, **row: Any) -> None:
        nonlocal lsn
        lsn += 1
        feed[table].append({**row, "_change_type": kind, "lsn": lsn})

    cities = ("Bergen", "Porto", "Ghent")
    for i in range(30):
        change("customer", "upsert", id=i, name=f"customer {i}", city=str(draw.choice(cities)))
    for i in range(120):
        change("orders", "upsert", id=i, customer=int(draw.integers(0, 32)), status="open")
        for line in range(int(draw.integers(1, 4))):
            price = str(Decimal(int(draw.integers(100, 9_000))) / 100)
            change(
                "item",
                "upsert",
                order_id=i,
                line=line,
                product=f"p{line}",
                quantity=int(draw.integers(1, 5)),
                price=price,
            )
        if draw.random() < 0.7:
            change("orders", "upsert", id=i, customer=int(draw.integers(0, 30)), status="paid")
        elif draw.random() < 0.5:
            change("orders", "delete", id=i)
    change("customer", "upsert", id=3, name="customer 3", city="Porto")
    change("customer", "archive", id=999)  # not a valid change type: set aside
    for table, rows in feed.items():
        for part in range(2):
            half = len(rows) // 2
            _lines(folder / table / f"{part}.json", part, rows[:half] if part == 0 else rows[half:])


def _lines(path: Path, number: int, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _in_order(path, number, lambda to: Path(to).write_text("".join(json.dumps(r) + "\n" for r in rows)))


def _in_order(path: Path, number: int, write: Callable[[Path], object]) -> None:
    write(path)
    os.utime(path, (1e9 + number, 1e9 + number))  # files are read in order of their time


MAKERS: dict[str, Callable[[Path], None]] = {"tpch": tpch, "graph": edges, "fraud": fraud, "webshop": webshop}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.make_data", description=__doc__)
    parser.add_argument("job", choices=list(MAKERS))
    parser.add_argument("folder", nargs="?", help="the output folder (default: the job's own folder `in`)")
    options = parser.parse_args(arguments)
    folder = Path(options.folder) if options.folder else HERE / options.job / "in"
    MAKERS[options.job](folder)
    print(f"wrote the tables of {options.job} below {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
