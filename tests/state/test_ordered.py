"""Ordered multisets against a dict of sorted lists."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.errors import StateError
from freshet.state import ordered
from freshet.state.arena import Arena
from freshet.state.ordered import Ordered
from freshet.state.strings import StringPool

VALUES: dict[int, list[Any]] = {
    ordered.INTEGER: [-(2**63), -5, 0, 1, 2, 3, 9, 2**63 - 1],
    ordered.FRACTION: [-math.inf, -2.5, -5e-324, 0.0, 0.1, 3.0, math.inf, math.nan],
    ordered.TEXT: ["", "a", "ab", "abc", "b", "z", "é", "🙂"],
    ordered.WIDE: [-(2**100), -(2**64), -1, 0, 1, 2**63, 2**64 + 5, 2**100],
}
OPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7), st.integers(-2, 3)), max_size=40)


def lanes(kind: int, values: list[Any], pool: StringPool) -> np.ndarray[Any, Any]:
    if kind == ordered.INTEGER:
        return np.array(values, np.int64).reshape(-1, 1)
    if kind == ordered.FRACTION:
        return np.array(values, float).view(np.int64).reshape(-1, 1)
    if kind == ordered.TEXT:
        return pool.intern(pa.array(values, pa.string())).reshape(-1, 1)
    return np.array([[(v & (2**64 - 1)) - (2**64 if v & 2**63 else 0), v >> 64] for v in values], np.int64).reshape(
        -1, 2
    )


@given(st.sampled_from(sorted(VALUES)), st.lists(OPS, max_size=4))
def test_agrees_with_sorted_lists(kind: int, batches: list[list[tuple[int, int, int]]]) -> None:
    arena = Arena()
    pool = StringPool(arena.scope("pool"))
    tree = Ordered(arena.scope("tree"), kind, pool)
    tree.reserve(3)
    domain = VALUES[kind]
    encoded = lanes(kind, domain, pool)
    twin: dict[int, Counter[int]] = {g: Counter() for g in range(3)}
    groups = np.arange(3, dtype=np.int32)
    for batch in batches:
        steps = []
        for group, at, weight in batch:
            weight = max(weight, -twin[group][at])
            twin[group][at] += weight
            steps.append((group, at, weight))
        tree.add(
            np.array([s[0] for s in steps], np.int32),
            encoded[np.array([s[1] for s in steps], int)],
            np.array([s[2] for s in steps], np.int64),
        )
        members = {g: sorted(twin[g].elements()) for g in twin}
        assert tree.live == sum(len(set(m)) for m in members.values())
        for greatest in (False, True):
            ends, exists = tree.ends(groups, greatest)
            for g in range(3):
                assert exists[g] == bool(members[g])
                if members[g]:
                    assert ends[g].tolist() == encoded[members[g][-1 if greatest else 0]].tolist()
        for at in range(len(domain)):
            bound = encoded[[at] * 3]
            assert tree.count_before(groups, bound).tolist() == [sum(m < at for m in members[g]) for g in range(3)]
            assert tree.count_before(groups, bound, True).tolist() == [
                sum(m <= at for m in members[g]) for g in range(3)
            ]
            values, counts = tree.walk(0, encoded[[at]], 100, inclusive=False)
            expected = [m for m in sorted(set(members[0])) if m > at]
            assert values.tolist() == encoded[expected].tolist()
            assert counts.tolist() == [twin[0][m] for m in expected]
            values, _ = tree.walk(0, encoded[[at]], 2, descending=True)
            assert (
                values.tolist() == encoded[[m for m in sorted(set(members[0]), reverse=True) if m <= at][:2]].tolist()
            )
        assert tree.walk(0, None, 100)[0].tolist() == encoded[sorted(set(members[0]))].tolist()


def test_many_values_in_order_stay_shallow_and_are_reused() -> None:
    tree = Ordered(Arena().scope("tree"), ordered.INTEGER)
    tree.reserve(1)
    n = 20_000
    group, ones = np.zeros(n, np.int32), np.ones(n, np.int64)
    rising = np.arange(n, dtype=np.int64).reshape(-1, 1)
    tree.add(group, rising, ones)
    assert tree.count_before(group[:1], rising[[777]]).tolist() == [777]
    rows = np.array(tree.walk(0, None, n)[0])
    assert (rows == rising).all()
    tree.add(group[1:], rising[1:], -ones[1:])
    assert tree.live == 1 and tree.ends(group[:1], True)[0].tolist() == [[0]]
    tree.add(group, rising + n, ones)
    assert tree.nodes.capacity <= 65536 and tree.live == n + 1


def test_a_temporarily_negative_count_is_fine_and_a_lasting_one_is_an_error() -> None:
    tree = Ordered(Arena().scope("tree"), ordered.INTEGER)
    tree.reserve(1)
    group = np.zeros(1, np.int32)
    tree.add(group, np.array([[4]]), np.array([-1]))
    with pytest.raises(StateError):
        tree.ends(group, False)
    tree.add(group, np.array([[4]]), np.array([1]))
    assert tree.ends(group, False)[1].tolist() == [False] and tree.live == 0


def test_marks_the_ids_it_holds() -> None:
    arena = Arena()
    pool = StringPool(arena.scope("pool"))
    tree = Ordered(arena.scope("tree"), ordered.TEXT, pool)
    tree.reserve(2)
    ids = pool.intern(pa.array(["x", "y", "z"])).reshape(-1, 1)
    tree.add(np.array([0, 1, 1], np.int32), ids, np.array([1, 1, 1]))
    tree.add(np.array([1], np.int32), ids[1:2], np.array([-1]))
    marked = np.zeros(pool.used, np.bool_)
    tree.mark(marked)
    assert marked[ids[:, 0]].tolist() == [True, False, True]
