"""Ordered structures count the nodes they visit: as many as their kernels take steps, up to a constant."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from freshet.state import agenda, ordered, ranked
from freshet.state.agenda import Agenda
from freshet.state.arena import Arena
from freshet.state.counted_chain import count_above, refresh_counts
from freshet.state.further_values import next_with_all, refresh_bests
from freshet.state.kernel import as_int32, as_int64, kernel
from freshet.state.ordered import INTEGER, Ordered
from freshet.state.ranked import ENDLESS, Ranked
from freshet.state.second_value import first_after, refresh_best
from freshet.state.sorted_chain import add_sorted, first_from, last_upto, remove_sorted
from freshet.state.strings import StringPool
from tests import counted

N = 400
UPWARDS = np.array([[0, INTEGER, 1, 1, 0, 1]], np.int64)


class Ticks:
    """The steps of some kernels of a module, as tests.counted counts them, while they are called as usual."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any, *names: str) -> None:
        self.spent = 0
        for name in names:
            monkeypatch.setattr(module, name, self._counting(getattr(module, name)))

    def _counting(self, plain: Any) -> Callable[..., Any]:
        counts = counted.counting(plain)

        def call(*args: Any) -> Any:
            before = int(counted._ticks[0])
            found = counts(*args)
            self.spent += int(counted._ticks[0]) - before
            return found

        return call

    def agree(self, visits: int, calls: int) -> None:
        """Steps that do not depend on the size of a structure are those of its calls."""
        assert calls <= visits <= self.spent <= 12 * visits, (visits, calls, self.spent)
        assert visits > 4 * calls, "paths are followed"
        self.spent = 0


def shuffled(n: int = N) -> Any:
    return np.array(Random(n).sample(range(n), n), np.int64)


def groups(n: int) -> Any:
    return np.zeros(n, np.int32)


def test_values(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(monkeypatch, ordered, "add_values", "end_values", "values_at", "counts_before")
    values = Ordered(Arena().scope("o"), INTEGER)
    values.reserve(1)
    values.add(groups(N), shuffled().reshape(-1, 1), np.ones(N, np.int64))
    ticks.agree(values.visits(), N)
    values.ends(groups(N), True)
    ticks.agree(values.visits(), N)
    values.at(groups(N), shuffled())
    ticks.agree(values.visits(), N)
    values.count_before(groups(N), shuffled().reshape(-1, 1))
    ticks.agree(values.visits(), N)
    values.add(groups(N), shuffled().reshape(-1, 1), np.full(N, -1))
    ticks.agree(values.visits(), N)
    assert values.live == 0 and values.visits() == 0


def test_most_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """MODE looks through a group."""
    values = Ordered(Arena().scope("o"), INTEGER)
    values.reserve(1)
    values.add(groups(N), shuffled().reshape(-1, 1), np.ones(N, np.int64))
    values.visits()
    values.most_frequent(groups(1), False)
    assert values.visits() == N


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(monkeypatch, ranked, "move_rows", "window_rows")
    rows = Ranked(Arena().scope("r"), 2, UPWARDS, StringPool(Arena().scope("p")))
    rows.roots.grow(1)
    given = np.column_stack([shuffled(), np.zeros(N, np.int64)])
    rows.move(groups(N), given, np.ones(N, np.int64))
    ticks.agree(rows.visits(), N)
    for _ in rows.windows(groups(1), N, 0, ENDLESS):
        pass
    ticks.agree(rows.visits(), 1)
    rows.move(groups(N), given, np.full(N, -1))
    ticks.agree(rows.visits(), N)
    assert rows.live == 0


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(monkeypatch, agenda, "put_slots", "take_slots", "take_due")
    times = Agenda(Arena().scope("a"))
    slots = np.arange(N, dtype=np.int32)
    times.put(slots, -np.arange(N))  # each before all others
    ticks.agree(times.visits(), N)
    times.due(N)
    ticks.agree(times.visits(), N)
    times.put(slots, np.arange(N))
    assert times.visits() == N, "in order of time, nothing moves"


@kernel("i8(i8, i8, i8, i8, i8, i8, i8, b1, b1)")
def chain_changes(
    ends: Any, links: Any, sides: Any, values: Any, more: Any, best: Any, n: Any, goes: Any, all: Any
) -> Any:
    """Adds tuples to a chain, or removes them, and updates what is kept of their subtrees: all that may be."""
    e, k, x, v = as_int32(ends), as_int32(links), as_int32(sides), as_int64(values)
    visited = np.int64(0)
    for s in range(n):
        if goes:
            visited += remove_sorted(e, np.int64(0), k, x, v, s)
        else:
            visited += add_sorted(e, np.int64(0), k, x, v, s)
        if all:
            visited += refresh_best(e, np.int64(0), x, v, as_int64(more), as_int64(best), s)
            visited += refresh_counts(e, np.int64(0), x, v, np.int64(0), as_int64(best), s)
            visited += refresh_bests(e, np.int64(0), x, v, as_int64(more), as_int64(best), np.int64(1), s)
    return visited


@kernel("i8(i8, i8, i8, i8, i8, i8, i8)")
def chain_searches(ends: Any, sides: Any, values: Any, more: Any, best: Any, needed: Any, n: Any) -> Any:
    e, x, v, visited = as_int32(ends), as_int32(sides), as_int64(values), np.int64(0)
    for i in range(n):
        s = np.int64(i)
        visited += first_from(e, np.int64(0), x, v, (v[2 * s], np.int64(0)), False)[1]
        visited += last_upto(e, np.int64(0), x, v, v[2 * s])[1]
        visited += count_above(e, np.int64(0), x, v, np.int64(0), as_int64(best), (v[2 * s], np.int64(0)), True)[1]
        visited += first_after(e, np.int64(0), x, v, as_int64(more), as_int64(best), s, np.int64(n) - s)[1]
        visited += next_with_all(
            e, np.int64(0), x, v, as_int64(more), as_int64(best), as_int64(needed), s, np.int64(1), np.int64(0), s,
            np.int64(1), (np.int64(n), np.int64(0)), True,
        )[2]  # fmt: skip
    return visited


def test_chains() -> None:
    ends, links, sides = np.zeros(3, np.int32), np.zeros((N, 2), np.int32), np.zeros((N, 2), np.int32)
    values, more, best = np.zeros((N, 2), np.int64), shuffled(), np.zeros(N, np.int64)
    values[:, 0] = shuffled()
    needed = ~np.arange(N)[::-1].copy()
    chain = [a.ctypes.data for a in (ends, links, sides, values, more, best)]

    def agree(kernel: Any, args: list[Any], calls: int) -> None:
        before = int(counted._ticks[0])
        visited = int(counted.counting(kernel)(*args))
        spent = int(counted._ticks[0]) - before
        assert 4 * calls < visited <= spent <= 12 * visited, (visited, calls, spent)

    agree(chain_changes, [*chain, N, False, True], 4 * N)
    agree(chain_searches, [chain[0], *chain[2:], needed.ctypes.data, N], 5 * N)
    agree(chain_changes, [*chain, N, True, True], 4 * N)
    assert not ends.any()
