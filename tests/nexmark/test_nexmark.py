"""Nexmark q0 to q22: each is kept over a stream of events with corrections, and equals DuckDB's answer after every
transaction, also when only the clock goes on."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import freshet
from tests.fuzz.dialect import for_duckdb
from tests.nexmark.events import SIDE_INPUT, START, TABLES, events
from tests.nexmark.queries import FOR_DUCKDB, QUERIES
from tests.oracle import RunningSum, duckdb_answer, same_bag

STEPS = 30


def follow(number: int, steps: int, seed: int) -> list[int]:
    """The number of rows of each answer that was compared."""
    rng = np.random.default_rng([number, seed])
    stream, clock, latest = events(seed), START, START
    db = freshet.connect()
    for name, columns in TABLES.items():
        db.execute(f"CREATE TABLE {name} ({columns})")
    schemas = {name: _without_zones(db.query(f"SELECT * FROM {name}").schema) for name in TABLES}
    held: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    held["side_input"] += SIDE_INPUT
    db.apply({"side_input": SIDE_INPUT})
    text = QUERIES[number][1]
    view = db.create_view("q", text)
    total, sizes = RunningSum(view.to_arrow()), []

    def compare(tx: freshet.Transaction) -> None:
        total.add(tx.deltas["q"])
        answer = view.to_arrow()
        total.equals(answer)
        now = f"TIMESTAMP '{clock}'"
        sql = FOR_DUCKDB[number].replace("NOW()", now) if number in FOR_DUCKDB else for_duckdb(text)
        tables = {name: pa.Table.from_pylist(rows, schemas[name]) for name, rows in held.items()}
        same_bag(answer, duckdb_answer(sql, tables))
        sizes.append(answer.num_rows)

    for step in range(steps):
        changes: dict[str, list[dict[str, Any]]] = {}
        for name, row in itertools.islice(stream, int(rng.integers(1, 12))):
            held[name].append(row)
            changes.setdefault(name, []).append({**row, "_weight": 1})
            latest = max(latest, row["date_time"])
        for name, often in (("person", 0.05), ("auction", 0.1), ("bid", 0.4)):  # corrections
            if held[name] and rng.random() < often:
                gone = held[name].pop(int(rng.integers(len(held[name]))))
                same = [row for row in changes.get(name, ()) if row == {**gone, "_weight": 1}]
                if same:
                    changes[name].remove(same[0])
                else:
                    changes.setdefault(name, []).append({**gone, "_weight": -1})
        compare(db.apply({name: rows for name, rows in changes.items() if rows}))
        clock = max(clock, latest)
        if step % 5 == 4:
            clock += datetime.timedelta(seconds=int(rng.integers(1, 40)))
        compare(db.advance(clock))
    return sizes


def _without_zones(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(f.name, pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type) for f in schema])


@pytest.mark.parametrize("number", QUERIES)
def test_query_follows_the_stream(number: int) -> None:
    sizes = follow(number, STEPS, seed=5)
    assert np.mean(np.array(sizes) > 0) > 0.5, "empty answers show nothing"
    assert len(set(sizes)) > 1


@pytest.mark.long
@pytest.mark.parametrize("number", QUERIES)
def test_query_follows_the_stream_for_long(number: int) -> None:
    follow(number, 150, seed=6)
