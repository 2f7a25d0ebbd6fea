"""Ranked rows against sorted lists: windows and how they change, with copies, ties, NULLs, and every kind of value."""

from __future__ import annotations

import functools
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
from freshet.state.ranked import ENDLESS, Ranked
from freshet.state.strings import StringPool

Row = tuple[Any, ...]
TEXTS = ["", "a", "aa", "b", "ä"]
DOUBLES = [-np.inf, -1.5, 0.0, 2.5, np.nan]

#: Two columns: an integer upwards with NULLs last, then the column under test downwards with NULLs first.
ORDER = [(False, False), (True, True)]

changes = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.integers(0, 4)),
        st.integers(-3, 3),
    ),
    max_size=12,
)


def compare(a: Row, b: Row, lines: int) -> int:
    """By the order's first lines; a column's values stand for themselves by their place."""
    for x, y, (down, nulls_first) in zip(a[:lines], b[:lines], ORDER, strict=False):
        if (x is None) != (y is None):
            return -1 if (x is None) == nulls_first else 1
        if x is not None and x != y:
            return (-1 if x < y else 1) * (-1 if down else 1)
    return 0


def whole(a: Row, b: Row) -> int:
    return compare(a, b, 2)


def window(rows: Counter[Row], low: int, high: int, keys: int) -> list[Row]:
    listed = sorted(rows.elements(), key=functools.cmp_to_key(whole))
    if keys and 0 < high <= len(listed):
        high = sum(compare(row, listed[high - 1], keys) <= 0 for row in listed)
    return listed[low:high]


@pytest.mark.parametrize("kind", [ordered.INTEGER, ordered.FRACTION, ordered.TEXT, ordered.WIDE])
@given(st.lists(changes, max_size=5), st.integers(0, 3), st.sampled_from((0, 1, 2, 5, ENDLESS)), st.booleans())
def test_windows_agree_with_sorted_lists(kind: int, batches: list[Any], low: int, length: int, tied: bool) -> None:
    arena = Arena()
    pool = StringPool(arena.scope("text"))
    ids = pool.intern(pa.array(TEXTS))
    doubles = np.array(DOUBLES).view(np.int64)
    wide = 2 if kind == ordered.WIDE else 1

    def packed(row: Row) -> list[int]:
        value = row[1] or 0
        lanes = {
            ordered.INTEGER: [value],
            ordered.FRACTION: [int(doubles[value])],
            ordered.TEXT: [int(ids[value])],
            ordered.WIDE: [[0, -1], [-1, -1], [5, 0], [-1, 0], [0, 1]][value],
        }[kind]
        values = lanes if row[1] is not None else [0] * wide
        return [row[0] or 0, *values, (row[0] is None) + 2 * (row[1] is None)]

    order = np.array([[0, ordered.INTEGER, 1, 1 + wide, 0, 1], [1, kind, -1, 1 + wide, 1, -1]], np.int64)
    kept = Ranked(arena.scope("rows"), 2 + wide, order, pool)
    kept.roots.grow(2)
    low, keys = (0, 1) if tied else (low, 0)
    high = min(low + length, ENDLESS)
    held: list[Counter[Row]] = [Counter(), Counter()]
    for batch in batches:
        total: Counter[tuple[int, Row]] = Counter()
        for group, a, b, weight in batch:
            total[group, (a, b)] += max(weight, -held[group][a, b] - total[group, (a, b)])
        moved = sorted(((g, row, w) for (g, row), w in total.items() if w), key=lambda change: change[2] > 0)
        before = [window(rows, low, high, keys) for rows in held]
        for group, row, weight in moved:
            held[group][row] += weight
        after = [window(rows, low, high, keys) for rows in held]
        lanes = np.array([packed(row) for _, row, _ in moved], np.int64).reshape(-1, 2 + wide)
        out, counts = kept.move(
            np.array([g for g, _, _ in moved], np.int32),
            lanes,
            np.array([w for _, _, w in moved], np.int64),
            low,
            high,
            keys,
        )
        emitted: Counter[tuple[int, ...]] = Counter()
        for lane, count in zip(out.tolist(), counts.tolist(), strict=True):
            emitted[tuple(lane)] += count
        expected: Counter[tuple[int, ...]] = Counter()
        for group in (0, 1):
            expected.update(tuple(packed(row)) for row in after[group])
            expected.subtract(tuple(packed(row)) for row in before[group])
        assert {k: v for k, v in emitted.items() if v} == {k: v for k, v in expected.items() if v}
        for room in (1, 3, 100):
            read: list[list[tuple[int, ...]]] = [[], []]
            for rows, copies, owners in kept.windows(np.array([0, 1], np.int32), room, low, high, keys):
                for lane, count, owner in zip(rows.tolist(), copies.tolist(), owners.tolist(), strict=True):
                    read[owner] += [tuple(lane)] * count
            assert read == [[tuple(packed(row)) for row in rows] for rows in after]
        assert kept.count(np.array([0, 1], np.int32), low, high, keys) == sum(map(len, after))
    assert kept.live == sum(len(+rows) for rows in held)


def test_a_long_window_emits_only_what_changes() -> None:
    arena = Arena()
    pool = StringPool(arena.scope("text"))
    order = np.array([[0, ordered.INTEGER, 1, 1, 0, -1]], np.int64)
    kept = Ranked(arena.scope("rows"), 2, order, pool)
    rows = np.zeros((10_000, 2), np.int64)
    rows[:, 0] = np.random.default_rng(0).permutation(10_000)
    groups = np.zeros(10_000, np.int32)
    kept.move(groups, rows, np.ones(10_000, np.int64))
    one = np.array([[-1, 0]], np.int64)
    out, counts = kept.move(groups[:1], one, np.array([1]), 0, 5_000)
    assert sorted(zip(out[:, 0].tolist(), counts.tolist(), strict=True)) == [(-1, 1), (4999, -1)]
    out, counts = kept.move(groups[:1], one, np.array([-1]), 0, 5_000)
    assert sorted(zip(out[:, 0].tolist(), counts.tolist(), strict=True)) == [(-1, -1), (4999, 1)]
    with pytest.raises(StateError):
        kept.move(groups[:1], one, np.array([-1]), 0, 5_000)
