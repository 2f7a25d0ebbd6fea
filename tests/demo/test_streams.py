"""The streams of demo and benchmark, against a plain queue."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import streams


@pytest.mark.parametrize(("count", "window"), [(0, 3), (2, 3), (7, 3), (5, 1)])
@pytest.mark.parametrize("drain", [True, False])
def test_sliding_window_is_a_queue(count: int, window: int, drain: bool) -> None:
    expected: list[tuple[int, int]] = []
    inside: deque[int] = deque()
    for row in range(count):
        if len(inside) == window:
            expected.append((inside.popleft(), -1))
        inside.append(row)
        expected.append((row, 1))
    if drain:
        expected += [(row, -1) for row in inside]
    rows, weights = streams.sliding_window(count, window, drain)
    assert list(zip(rows.tolist(), weights.tolist(), strict=True)) == expected


def test_skewed_edges_are_distinct_and_without_loops() -> None:
    edges = streams.skewed_edges(vertices=50, edges=300)
    assert len(np.unique(edges, axis=0)) == len(edges) == 300
    assert (edges[:, 0] != edges[:, 1]).all()


@pytest.mark.parametrize("size", [1, 97, 10_000])
def test_order_window_holds_the_surviving_rows(tiny_tpch: dict[str, pa.Table], size: int) -> None:
    stream = streams.order_window(tiny_tpch["orders"], tiny_tpch["lineitem"], 0.2)
    inside: dict[str, set[tuple[object, ...]]] = {"orders": set(), "lineitem": set()}
    keys = {"orders": ["o_orderkey"], "lineitem": ["l_orderkey", "l_linenumber"]}
    largest = moved = 0
    for transaction in stream.transactions(size):
        assert sum(changes.num_rows for changes in transaction.values()) <= size
        for name, changes in transaction.items():
            columns = [changes[c].to_pylist() for c in [*keys[name], "_weight"]]
            for *key, weight in zip(*columns, strict=True):
                moved += 1
                if weight > 0:
                    assert tuple(key) not in inside[name]
                    inside[name].add(tuple(key))
                else:
                    inside[name].remove(tuple(key))
        largest = max(largest, len(inside["orders"]))
        if moved % 1013 == 0 or moved == len(stream):
            for name, table in stream.surviving(moved).items():
                assert inside[name] == set(zip(*(table[c].to_pylist() for c in keys[name]), strict=True))
    assert largest <= 300 + size
    assert moved == len(stream)
    assert len(inside["orders"]) == 300
