"""Edges with a comparison: the parent's value must be less than, at most, or different from the child's.

Per key an edge keeps three sorted chains: alive children, all parents, live parents. Whether a parent has support
follows from the extreme of the first, whether a child is reached from that of the last: a < b for some b exactly when a
< max b. So when one tuple is inserted or deleted, only tuples between the old and the new extreme change: the cost of
an update is the number of flips, plus a logarithm to find the position. For "different", the least and the greatest
together decide: all differ from v unless both are v.

Where a second comparison bounds the same two values the other way, a < b <= a + d, all partners of a tuple lie in a
range of the chain. The range is entered at its far end, found in O(log n), instead of at the end of the chain. Support
ignores d: enumeration checks the second comparison, and may find a range empty.

Where a second comparison is between other values, a < b and c < d, the chains store the second values as well
(second_value): partners that satisfy both are found in O(log n) each. Parents hold the complement of theirs, so that on
either side more is better. Support ignores this second comparison, too: there may be no partner. With more than two
comparisons, partners that satisfy all are searched (further_values).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.chains import child_key, parent_key
from freshet.state.counted_chain import count_above, refresh_counts
from freshet.state.further_values import has_all, next_with_all, refresh_bests
from freshet.state.kernel import as_int64, inlined, kernel
from freshet.state.second_value import first_after, last_before, refresh_best
from freshet.state.sorted_chain import (
    HEAD,
    ROOT,
    TAIL,
    add_sorted,
    append,
    first_from,
    last_upto,
    less,
    prefetch_places,
    remove_sorted,
    same,
    value_at,
)
from freshet.state.tree_table import (
    ALIVE,
    ANY_DISTANCE,
    AT_MOST,
    BAND,
    CHILD_BEST,
    CHILD_COUNTS,
    CHILD_KEY,
    CHILD_SECONDS,
    CHILD_SIDES,
    CHILD_VALUES,
    ENDS,
    FURTHER,
    LIVE_BEST,
    LIVE_SIDES,
    LOOKED,
    NONE,
    PARENT_KEY,
    PARENT_SECONDS,
    PARENT_SIDES,
    PARENT_VALUES,
    SECOND,
    STRICT,
    UNCOUNTED,
    UNEQUAL,
    WEIGHT,
    child_links_of,
    child_sides_of,
    child_values_of,
    column,
    compares,
    comparison_of,
    ends_of,
    first_child,
    is_far,
    is_output,
    live_links_of,
    live_sides_of,
    next_sibling,
    parent_links_of,
    parent_of,
    parent_sides_of,
    parent_values_of,
    status_of,
)  # fmt: skip

_MOST = np.int64(np.iinfo(np.int64).max)

# Counts of work next to the tree (LOOKED): tuples looked at in vain, and nodes of sorted chains visited.
IN_VAIN, VISITED, LOOKED_PLACES = 0, 1, 2

# Places of the chains in ENDS, int32[keys, 9].
CHILDREN, PARENTS, LIVES, ENDS_COLUMNS = 0, 3, 6, 9


@inlined
def _visit(t: Any, nodes: Any) -> None:
    """Counts nodes of sorted chains that were visited."""
    as_int64(column(t, 0, LOOKED))[VISITED] += nodes


@inlined
def holds(op: Any, a: Any, b: Any) -> Any:
    """Whether parent value a and child value b satisfy the comparison."""
    if op == UNEQUAL:
        return not same(a, b)
    return less(a, b) or (op == AT_MOST and same(a, b))


@inlined
def has_support(t: Any, c: Any, k: Any, a: Any) -> Any:
    """Whether some alive child under key k compares with parent value a."""
    ends, values, op = ends_of(t, c), child_values_of(t, c), comparison_of(t, c)
    tail = ends[ENDS_COLUMNS * k + CHILDREN + TAIL]
    if tail == 0:
        return False
    if op == UNEQUAL:
        head = ends[ENDS_COLUMNS * k + CHILDREN + HEAD]
        return not same(value_at(values, tail - 1), a) or not same(value_at(values, head - 1), a)
    return holds(op, a, value_at(values, tail - 1))


@inlined
def is_reached(t: Any, c: Any, k: Any, b: Any) -> Any:
    """Whether some live parent under key k compares with child value b."""
    ends, values, op = ends_of(t, c), parent_values_of(t, c), comparison_of(t, c)
    head = ends[ENDS_COLUMNS * k + LIVES + HEAD]
    if head == 0:
        return False
    if op == UNEQUAL:
        tail = ends[ENDS_COLUMNS * k + LIVES + TAIL]
        return not same(value_at(values, head - 1), b) or not same(value_at(values, tail - 1), b)
    return holds(op, value_at(values, head - 1), b)


@inlined
def extremes(ends: Any, at: Any, values: Any) -> Any:
    """Whether a chain has any tuple, its least and its greatest value."""
    if ends[at + HEAD] == 0:
        return False, (np.int64(0), np.int64(0)), (np.int64(0), np.int64(0))
    return True, value_at(values, ends[at + HEAD] - 1), value_at(values, ends[at + TAIL] - 1)


@inlined
def list_equal(t: Any, ends: Any, at: Any, links: Any, sides: Any, values: Any, v: Any, out: Any, n: Any) -> Any:
    """Appends the tuples whose value is v."""
    s, visited = first_from(ends, at, sides, values, v, True)
    _visit(t, visited)
    while s and same(value_at(values, s - 1), v):
        out = append(out, n, s - 1)
        n += 1
        s = np.int64(links[2 * (s - 1)])
    return out, n


@inlined
def list_unequal(ends: Any, at: Any, links: Any, values: Any, v: Any, out: Any, n: Any) -> Any:
    """Appends the tuples whose value is not v."""
    s = np.int64(ends[at + HEAD])
    while s:
        if not same(value_at(values, s - 1), v):
            out = append(out, n, s - 1)
            n += 1
        s = np.int64(links[2 * (s - 1)])
    return out, n


@inlined
def unequal_flips(
    t: Any, ends: Any, at: Any, links: Any, sides: Any, values: Any, few: Any, few_v: Any, many: Any, many_v: Any,
    many_w: Any, out: Any, n: Any,
) -> Any:  # fmt: skip
    """The tuples on the other side that change between a smaller state of a chain (empty or not, its least) and a
    larger one."""
    if not few and many:
        return list_unequal(ends, at, links, values, many_v, out, n)
    if few and not same(many_v, many_w):
        return list_equal(t, ends, at, links, sides, values, few_v, out, n)
    return out, n


@inlined
def prefetch_compared(t: Any, c: Any, chain: Any, tuples: Any, j: Any) -> None:
    """Prefetches what finding the tuples from j on in one of the chains of c's edge will read."""
    far = is_far(t, c if chain == CHILDREN else parent_of(t, c))
    ids, sides, values = column(t, c, PARENT_KEY), column(t, c, PARENT_SIDES), column(t, c, PARENT_VALUES)
    if chain == LIVES:
        sides = column(t, c, LIVE_SIDES)
    elif chain == CHILDREN:
        ids, sides, values = column(t, c, CHILD_KEY), column(t, c, CHILD_SIDES), column(t, c, CHILD_VALUES)
    if ids != 0 and far:
        prefetch_places(column(t, c, ENDS) + 4 * (chain + ROOT), 4 * ENDS_COLUMNS, ids, sides, values, tuples, j)


@inlined
def prefetch_order(t: Any, e: Any, chain: Any, tuples: Any, j: Any) -> None:
    """The same for parents, in that chain of each edge of node e that compares; live ones stand on output edges."""
    c = first_child(t, e)
    while c >= 0:
        if compares(t, c) and (chain == PARENTS or is_output(t, c)):
            prefetch_compared(t, c, chain, tuples, j)
        c = next_sibling(t, c)


@inlined
def change_child(t: Any, c: Any, k: Any, s: Any, adding: Any, out: Any, n: Any) -> Any:
    """Adds child s to the chain of its key, or removes it; appends the parents whose support flips."""
    ends, at, op = ends_of(t, c), ENDS_COLUMNS * k, comparison_of(t, c)
    values = child_values_of(t, c)
    links, sides = child_links_of(t, c), child_sides_of(t, c)
    any0, least0, most0 = extremes(ends, at + CHILDREN, values)
    if adding:
        visited = add_sorted(ends, at + CHILDREN, links, sides, values, s)
    else:
        visited = remove_sorted(ends, at + CHILDREN, links, sides, values, s)
    if column(t, c, SECOND) != NONE:
        seconds, best = as_int64(column(t, c, CHILD_SECONDS)), as_int64(column(t, c, CHILD_BEST))
        if column(t, c, FURTHER) > 1:
            visited += refresh_bests(ends, at + CHILDREN, sides, values, seconds, best, column(t, c, FURTHER), s)
        else:
            visited += refresh_best(ends, at + CHILDREN, sides, values, seconds, best, s)
    if column(t, c, CHILD_COUNTS) != UNCOUNTED:
        counts = as_int64(column(t, c, CHILD_COUNTS))
        visited += refresh_counts(ends, at + CHILDREN, sides, values, column(t, c, WEIGHT), counts, s)
    _visit(t, visited)
    any1, least1, most1 = extremes(ends, at + CHILDREN, values)
    if not adding:  # from here on 0 is the smaller state, 1 the larger
        any0, any1 = any1, any0
        least0, least1 = least1, least0
        most0, most1 = most1, most0
    links, sides = parent_links_of(t, c), parent_sides_of(t, c)
    values = parent_values_of(t, c)
    if op == UNEQUAL:
        if any0 and not same(least0, most0):
            return out, n
        return unequal_flips(t, ends, at + PARENTS, links, sides, values, any0, least0, any1, least1, most1, out, n)
    if any0 and same(most0, most1):
        return out, n
    # Parents that compare with the greater extreme but not with the smaller one.
    p = np.int64(ends[at + PARENTS + HEAD])
    if any0:
        p, visited = first_from(ends, at + PARENTS, sides, values, most0, op != AT_MOST)
        _visit(t, visited)
    while p and holds(op, value_at(values, p - 1), most1):
        out = append(out, n, p - 1)
        n += 1
        p = np.int64(links[2 * (p - 1)])
    return out, n


@inlined
def change_live(t: Any, c: Any, k: Any, s: Any, adding: Any, out: Any, n: Any) -> Any:
    """Adds parent s to the live parents of its key, or removes it; appends the children that only it reaches."""
    ends, at, op = ends_of(t, c), ENDS_COLUMNS * k, comparison_of(t, c)
    values = parent_values_of(t, c)
    links, sides = live_links_of(t, c), live_sides_of(t, c)
    any0, least0, most0 = extremes(ends, at + LIVES, values)
    if adding:
        visited = add_sorted(ends, at + LIVES, links, sides, values, s)
    else:
        visited = remove_sorted(ends, at + LIVES, links, sides, values, s)
    if column(t, c, SECOND) != NONE:
        seconds, best = as_int64(column(t, c, PARENT_SECONDS)), as_int64(column(t, c, LIVE_BEST))
        if column(t, c, FURTHER) > 1:
            visited += refresh_bests(ends, at + LIVES, sides, values, seconds, best, column(t, c, FURTHER), s)
        else:
            visited += refresh_best(ends, at + LIVES, sides, values, seconds, best, s)
    _visit(t, visited)
    any1, least1, most1 = extremes(ends, at + LIVES, values)
    if not adding:
        any0, any1 = any1, any0
        least0, least1 = least1, least0
        most0, most1 = most1, most0
    links, sides = child_links_of(t, c), child_sides_of(t, c)
    values = child_values_of(t, c)
    if op == UNEQUAL:
        if any0 and not same(least0, most0):
            return out, n
        return unequal_flips(t, ends, at + CHILDREN, links, sides, values, any0, least0, any1, least1, most1, out, n)
    if any0 and same(least0, least1):
        return out, n
    child, visited = first_from(ends, at + CHILDREN, sides, values, least1, op == AT_MOST)
    _visit(t, visited)
    while child and not (any0 and holds(op, least0, value_at(values, child - 1))):
        out = append(out, n, child - 1)
        n += 1
        child = np.int64(links[2 * (child - 1)])
    return out, n


@inlined
def change_parent(t: Any, c: Any, k: Any, s: Any, adding: Any) -> None:
    """Adds parent s to the chain of all parents of its key, or removes it."""
    ends, at = ends_of(t, c), ENDS_COLUMNS * k + PARENTS
    links, sides, values = parent_links_of(t, c), parent_sides_of(t, c), parent_values_of(t, c)
    if adding:
        _visit(t, add_sorted(ends, at, links, sides, values, s))
    else:
        _visit(t, remove_sorted(ends, at, links, sides, values, s))


@inlined
def next_unequal(ends: Any, at: Any, links: Any, values: Any, v: Any, s: Any) -> Any:
    """The tuple after s (-1: the first) whose value is not v; -1 when there is none. From the least up to v, then from
    the greatest down to it: those with the value v, however many, are never visited."""
    if s < 0 or less(value_at(values, s), v):
        found = np.int64(ends[at + HEAD] if s < 0 else links[2 * s])
        if found and less(value_at(values, found - 1), v):
            return found - 1
        found = np.int64(ends[at + TAIL])
    else:
        found = np.int64(links[2 * s + 1])
    return found - 1 if found and less(v, value_at(values, found - 1)) else np.int64(-1)


@inlined
def beyond_both(t: Any, c: Any, chain: Any, sides: Any, values: Any, k: Any, least: Any, s: Any) -> Any:
    """The tuple of a chain after s, in the order of enumeration, whose second value compares with `least`; -1: none."""
    ends, at = ends_of(t, c), ENDS_COLUMNS * k + chain
    if column(t, c, SECOND) != AT_MOST:
        if least == _MOST:
            return np.int64(-1)
        least += 1
    if chain == CHILDREN:
        seconds, best = as_int64(column(t, c, CHILD_SECONDS)), as_int64(column(t, c, CHILD_BEST))
        found, visited = last_before(ends, at, sides, values, seconds, best, s, least)
    else:
        seconds, best = as_int64(column(t, c, PARENT_SECONDS)), as_int64(column(t, c, LIVE_BEST))
        found, visited = first_after(ends, at, sides, values, seconds, best, s, least)
    _visit(t, visited)
    return found


@inlined
def has_enough(t: Any, c: Any, own: Any, least: Any) -> Any:
    """Whether a second value compares with another one, in the order in which more is better."""
    return own > least or (own == least and column(t, c, SECOND) == AT_MOST)


@inlined
def search_child(t: Any, c: Any, k: Any, p: Any, s: Any) -> Any:
    """Child s or the nearest one before it that satisfies all comparisons with parent p; -1 when there is none."""
    op, values, a = comparison_of(t, c), child_values_of(t, c), value_at(parent_values_of(t, c), p)
    own, needed = as_int64(column(t, c, CHILD_SECONDS)), as_int64(column(t, c, PARENT_SECONDS))
    many, strict = column(t, c, FURTHER), column(t, c, STRICT)
    if not holds(op, a, value_at(values, s)):
        return np.int64(-1)
    if has_all(own, s, needed, p, many, strict):
        return s
    found, looked, visited = next_with_all(
        ends_of(t, c), ENDS_COLUMNS * k + CHILDREN, child_sides_of(t, c), values, own,
        as_int64(column(t, c, CHILD_BEST)), needed, p, many, strict, s, np.int64(0), a, op == AT_MOST,
    )  # fmt: skip
    as_int64(column(t, 0, LOOKED))[IN_VAIN] += looked + 1
    _visit(t, visited)
    return found


@inlined
def search_live_parent(t: Any, c: Any, k: Any, child: Any, s: Any) -> Any:
    """Live parent s or the nearest one after it that satisfies all comparisons with a child; -1 when there is none."""
    op, values, b = comparison_of(t, c), parent_values_of(t, c), value_at(child_values_of(t, c), child)
    own, needed = as_int64(column(t, c, PARENT_SECONDS)), as_int64(column(t, c, CHILD_SECONDS))
    many, strict = column(t, c, FURTHER), column(t, c, STRICT)
    if not holds(op, value_at(values, s), b):
        return np.int64(-1)
    if has_all(own, s, needed, child, many, strict):
        return s
    found, looked, visited = next_with_all(
        ends_of(t, c), ENDS_COLUMNS * k + LIVES, live_sides_of(t, c), values, own,
        as_int64(column(t, c, LIVE_BEST)), needed, child, many, strict, s, np.int64(1), b, op == AT_MOST,
    )  # fmt: skip
    as_int64(column(t, 0, LOOKED))[IN_VAIN] += looked + 1
    _visit(t, visited)
    return found


@inlined
def next_child(t: Any, c: Any, k: Any, p: Any, s: Any) -> Any:
    """The child after s (-1: the first) that compares with parent p; -1 when there is none."""
    ends, at, op = ends_of(t, c), ENDS_COLUMNS * k + CHILDREN, comparison_of(t, c)
    links, values, a = child_links_of(t, c), child_values_of(t, c), value_at(parent_values_of(t, c), p)
    if op == UNEQUAL:
        return next_unequal(ends, at, links, values, a, s)
    found = np.int64(ends[at + TAIL] if s < 0 else links[2 * s + 1])  # from the greatest down
    band = column(t, c, BAND)
    if s < 0 and found and band != ANY_DISTANCE and a[0] <= _MOST - band:
        if value_at(values, found - 1)[0] > a[0] + band:
            found, visited = last_upto(ends, at, child_sides_of(t, c), values, a[0] + band)
            _visit(t, visited)
    if found and column(t, c, FURTHER) > 1:
        return search_child(t, c, k, p, found - 1)
    if found and column(t, c, SECOND) != NONE:
        least = ~as_int64(column(t, c, PARENT_SECONDS))[p]
        if not has_enough(t, c, as_int64(column(t, c, CHILD_SECONDS))[found - 1], least):
            found = 1 + beyond_both(t, c, CHILDREN, child_sides_of(t, c), values, k, least, found - 1)
    return found - 1 if found and holds(op, a, value_at(values, found - 1)) else np.int64(-1)


@inlined
def count_children(t: Any, c: Any, p: Any) -> Any:
    """How many children compare with parent p, with their copies; the edge counts them."""
    k = parent_key(t, c, p)
    if k < 0:
        return np.int64(0)
    ends, at, sides, values = ends_of(t, c), ENDS_COLUMNS * k + CHILDREN, child_sides_of(t, c), child_values_of(t, c)
    weights, counts, a = column(t, c, WEIGHT), as_int64(column(t, c, CHILD_COUNTS)), value_at(parent_values_of(t, c), p)
    found, visited = count_above(ends, at, sides, values, weights, counts, a, comparison_of(t, c) == AT_MOST)
    _visit(t, visited)
    return found


@kernel("void(i8, i8, i4[::1])")
def recount(tree: Any, c: Any, slots: Any) -> None:
    """Tuples of node c, which its edge counts, have other copies than before."""
    t = as_int64(tree)
    sides, values, status = child_sides_of(t, c), child_values_of(t, c), status_of(t, c)
    weights, counts = column(t, c, WEIGHT), as_int64(column(t, c, CHILD_COUNTS))
    for slot in slots:
        s = np.int64(slot)
        if status[s] >= ALIVE:
            k = child_key(t, c, s)
            if k >= 0:
                _visit(t, refresh_counts(ends_of(t, c), ENDS_COLUMNS * k + CHILDREN, sides, values, weights, counts, s))


@inlined
def next_live_parent(t: Any, c: Any, k: Any, child: Any, s: Any) -> Any:
    """The live parent after s (-1: the first) that compares with a child; -1 when there is none."""
    ends, at, op = ends_of(t, c), ENDS_COLUMNS * k + LIVES, comparison_of(t, c)
    links, values, b = live_links_of(t, c), parent_values_of(t, c), value_at(child_values_of(t, c), child)
    if op == UNEQUAL:
        return next_unequal(ends, at, links, values, b, s)
    found = np.int64(ends[at + HEAD] if s < 0 else links[2 * s])
    band = column(t, c, BAND)
    if s < 0 and found and band != ANY_DISTANCE and b[0] >= band - _MOST:
        if value_at(values, found - 1)[0] < b[0] - band:
            found, visited = first_from(ends, at, live_sides_of(t, c), values, (b[0] - band, -_MOST), True)
            _visit(t, visited)
    if found and column(t, c, FURTHER) > 1:
        return search_live_parent(t, c, k, child, found - 1)
    if found and column(t, c, SECOND) != NONE:
        least = ~as_int64(column(t, c, CHILD_SECONDS))[child]
        if not has_enough(t, c, as_int64(column(t, c, PARENT_SECONDS))[found - 1], least):
            found = 1 + beyond_both(t, c, LIVES, live_sides_of(t, c), values, k, least, found - 1)
    return found - 1 if found and holds(op, value_at(values, found - 1), b) else np.int64(-1)
