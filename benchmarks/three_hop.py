"""Paths of three edges over a sliding window of a skewed graph: a self-join whose answer is much larger than its
input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

import freshet
from benchmarks.measure import Figures, Run, bytes_per_tuple, watched
from benchmarks.streams import edge_window, in_transactions, skewed_edges

WINDOW = 20_000
SIZES = (1, 100, 1_000, 10_000)

SCHEMA = "CREATE TABLE g (src BIGINT, dst BIGINT)"
QUERY = """
    SELECT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d
    FROM g AS g1, g AS g2, g AS g3
    WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst > 4000"""


def measure(sizes: Sequence[int] = SIZES, edges: int = 100_000) -> Iterator[Figures]:
    changes = edge_window(skewed_edges(edges=edges), WINDOW)
    _run(changes.slice(0, 2 * WINDOW), 10_000, True)  # touches every kernel and page once
    for size in sizes:
        for deltas in (False, True):
            yield _run(changes, size, deltas)


def _run(changes: pa.Table, size: int, deltas: bool) -> Figures:
    db = freshet.connect()
    db.execute(SCHEMA)
    db.create_view("paths", QUERY)
    run, state = Run(), 0.0
    label = f"three-hop, {size:,} a transaction, {'with' if deltas else 'without'} deltas"
    for transaction in watched(in_transactions(changes, "g", size), label, changes.num_rows):
        run.apply(db, transaction, deltas)
        if run.changes >= changes.num_rows // 2 and not state:
            state = bytes_per_tuple(db)  # the window is full
    return Figures.of(run, "three-hop", size, deltas, state)
