"""IEDyn, section 5: which structure finds the tuples that satisfy two comparisons, from 10³ to 10⁶ tuples of one key.

Each finds the tuple with the greatest first value among those beyond two bounds. The engine's is the treap of a sorted
chain with the greatest second value of each subtree (state/second_value). Next to it stand the chain alone, whose
tuples are checked one by one as IEDyn does within a lexicographic order, and a forest of static range trees of sizes
1, 2, 4, ... that are merged as binary counters carry (Bentley and Saxe): each is sorted by the first value, with the
greatest second value of each range. Second values fall as first values rise, so that half of all tuples satisfy either
comparison of a search, and none or few both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.papers.harness import Plot, Result, Size
from freshet.state.arrays import Int64s
from freshet.state.kernel import as_int32, as_int64, inlined
from freshet.state.second_value import last_before, refresh_best
from freshet.state.sorted_chain import TAIL, add_sorted

SEARCHES = 2_000
FEW = 10  # tuples that satisfy both comparisons of a search that finds one


def run(size: Size) -> Iterator[Result]:
    result = Result("iedyn-structures", "IEDyn: structures for two comparisons between the same tables",
                    Plot("tuples", "ns a search in vain", "structure", log="xy"))  # fmt: skip
    ways = (("treap", treap), ("range trees", range_trees), ("chain", chain))
    for n in map(int, size.scales((1e3, 1e4, 1e5, 1e6), (1e3, 1e4, 1e5), (1e3, 4e3))):
        rng = np.random.default_rng(n)
        firsts, bounds = rng.permutation(n) * 2, np.sort(rng.integers(n // 4, n // 2, SEARCHES)) * 2 + 1
        searches = {"in vain": -bounds, "that finds one": -bounds - 2 * FEW}
        for structure, way in ways:
            state, insert, search, nbytes = way(n)
            insert(state, firsts, -firsts, 0, 1)  # compiles
            started = size.now()
            insert(state, firsts, -firsts, 1, n)
            row: dict[str, Any] = {"tuples": n, "structure": structure}
            row["ns an insert"] = _ns(size.now() - started, n - 1)
            for name, seconds in searches.items():
                few = slice(0, SEARCHES if structure != "chain" else max(4_000_000 // n, 4))
                search(state, bounds[:1], seconds[:1])
                started = size.now()
                found = search(state, bounds[few], seconds[few])
                row[f"ns a search {name}"] = _ns(size.now() - started, len(bounds[few]))
                expected = -1 if name == "in vain" else 1
                assert (np.sign(found) == expected).all(), "every structure finds the same"
                if expected == 1:
                    assert (found == bounds[few] + 2 * FEW - 1).all()
            result.rows.append({**row, "B a tuple": round(nbytes / n)})
    yield result


def _ns(seconds: float, times: int) -> float:
    return round(1e9 * seconds / max(times, 1), 1)


Way = tuple[Any, Callable[..., None], Callable[[Any, Int64s, Int64s], Int64s], int]


# The engine's chains ----------------------------------------------------------------------------------------------


def treap(n: int) -> Way:
    arrays = [np.zeros(3, np.int32), np.zeros(2 * n, np.int32), np.zeros(2 * n, np.int32)]
    numbers = [np.zeros(2 * n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)]
    state: tuple[Any, ...] = (*arrays, *numbers)
    return state, _insert_treap, _search_treap, sum(a.nbytes for a in state)


def chain(n: int) -> Way:
    state, _, _, nbytes = treap(n)
    return state, _insert_chain, _search_chain, nbytes - state[5].nbytes


def _insert_treap(state: Any, firsts: Int64s, seconds: Int64s, start: int, stop: int) -> None:
    ends, links, sides, values, second, best = (a.ctypes.data for a in state)
    _insert(ends, links, sides, values, second, best, firsts, seconds, start, stop, True)


def _insert_chain(state: Any, firsts: Int64s, seconds: Int64s, start: int, stop: int) -> None:
    ends, links, sides, values, second, best = (a.ctypes.data for a in state)
    _insert(ends, links, sides, values, second, best, firsts, seconds, start, stop, False)


@inlined
def _insert(
    ends: Any, links: Any, sides: Any, values: Any, second: Any, best: Any, firsts: Any, seconds: Any, start: Any,
    stop: Any, searched: Any,
) -> None:  # fmt: skip
    e, li, si, v, y, b = (
        as_int32(ends), as_int32(links), as_int32(sides), as_int64(values), as_int64(second), as_int64(best),
    )  # fmt: skip
    for s in range(start, stop):
        v[2 * s], v[2 * s + 1], y[s] = firsts[s], 0, seconds[s]
        add_sorted(e, np.int64(0), li, si, v, s)
        if searched:
            refresh_best(e, np.int64(0), si, v, y, b, s)


def _search_treap(state: Any, bounds: Int64s, seconds: Int64s) -> Int64s:
    ends, _, sides, values, second, best = (a.ctypes.data for a in state)
    out = np.empty(len(bounds), np.int64)
    _find_in_treap(ends, sides, values, second, best, bounds, seconds, out)
    return out


@inlined
def _find_in_treap(
    ends: Any, sides: Any, values: Any, second: Any, best: Any, bounds: Any, seconds: Any, out: Any
) -> None:
    e, si, v, y, b = as_int32(ends), as_int32(sides), as_int64(values), as_int64(second), as_int64(best)
    for i in range(len(bounds)):
        s = np.int64(e[TAIL] - 1)
        if y[s] < seconds[i]:
            s, _ = last_before(e, np.int64(0), si, v, y, b, s, seconds[i])
        out[i] = v[2 * s] if s >= 0 and v[2 * s] > bounds[i] else -1


def _search_chain(state: Any, bounds: Int64s, seconds: Int64s) -> Int64s:
    ends, links, _, values, second, _ = (a.ctypes.data for a in state)
    out = np.empty(len(bounds), np.int64)
    _find_in_chain(ends, links, values, second, bounds, seconds, out)
    return out


@inlined
def _find_in_chain(ends: Any, links: Any, values: Any, second: Any, bounds: Any, seconds: Any, out: Any) -> None:
    e, li, v, y = as_int32(ends), as_int32(links), as_int64(values), as_int64(second)
    for i in range(len(bounds)):
        s = np.int64(e[TAIL] - 1)
        while s >= 0 and v[2 * s] > bounds[i] and y[s] < seconds[i]:
            s = np.int64(li[2 * s + 1]) - 1
        out[i] = v[2 * s] if s >= 0 and v[2 * s] > bounds[i] else -1


# Range trees ------------------------------------------------------------------------------------------------------


def range_trees(n: int) -> Way:
    """The tree of 2**i tuples has them from position 2**i on in the first two arrays, and its ranges from 2 * 2**i on
    in the third."""
    room = 1 << int(n).bit_length()
    state = np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(2 * room, np.int64), np.zeros(1, np.int64)
    return state, _insert_ranges, _search_ranges, sum(a.nbytes for a in state)


def _insert_ranges(state: Any, firsts: Int64s, seconds: Int64s, start: int, stop: int) -> None:
    xs, ys, most, held = state
    _merge(xs, ys, most, held, firsts, seconds, start, stop)


@inlined
def _merge(xs: Any, ys: Any, most: Any, held: Any, firsts: Any, seconds: Any, start: Any, stop: Any) -> None:
    for s in range(start, stop):
        a, b, n = np.full(1, firsts[s]), np.full(1, seconds[s]), 1
        while held[0] & n:  # a tree of this size: both are merged
            c, d, i, j = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64), 0, n
            for k in range(2 * n):
                if j == 2 * n or (i < n and a[i] < xs[j]):
                    c[k], d[k], i = a[i], b[i], i + 1
                else:
                    c[k], d[k], j = xs[j], ys[j], j + 1
            a, b, n = c, d, 2 * n
        held[0] += 1
        for k in range(n):
            xs[n + k], ys[n + k], most[3 * n + k] = a[k], b[k], b[k]
        for k in range(n - 1, 0, -1):
            most[2 * n + k] = max(most[2 * n + 2 * k], most[2 * n + 2 * k + 1])


def _search_ranges(state: Any, bounds: Int64s, seconds: Int64s) -> Int64s:
    out = np.empty(len(bounds), np.int64)
    xs, ys, most, held = state
    _find_in_ranges(xs, ys, most, held, bounds, seconds, out)
    return out


@inlined
def _find_in_ranges(xs: Any, ys: Any, most: Any, held: Any, bounds: Any, seconds: Any, out: Any) -> None:
    for i in range(len(bounds)):
        out[i], n = -1, 1
        while n <= held[0]:
            if held[0] & n and most[2 * n + 1] >= seconds[i]:
                k = 1
                while k < n:
                    k = 2 * k + 1 if most[2 * n + 2 * k + 1] >= seconds[i] else 2 * k
                x = xs[k]  # leaf n + j of the tree is tuple n + j
                if x > bounds[i]:
                    out[i] = max(out[i], x)
            n *= 2
