"""Rows in order, one sequence a group, and windows over them: what they hold and how they change, in O(log n).

A *window* is the ranks from `low` up to `high`; with `keys` above 0 it also takes in every row that the first `keys`
lines of the order cannot tell from the last one inside, as RANK() <= high does. Adding w copies of a row at rank p
moves all rows from p on by w, so the rows that enter and leave the window are a few ranges of ranks around the change.
Reading them costs O(log n) plus their number of rows, however long the window is. Removing is the inverse of adding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from freshet.errors import StateError
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.kernel import inlined, kernel
from freshet.state.row_tree import at_rank, change, compare_rows, find, read, through
from freshet.state.strings import StringPool
from freshet.state.treap import COUNT, DEPTH, LIVE, NOWHERE, TOTAL, USED, VALUE, mark_lane, visits

Slots = npt.NDArray[np.int32]

ENDLESS = np.iinfo(np.int64).max // 4  # where a window without an end ends


@inlined
def _end(
    nodes: Any, links: Any, root: Any, high: Any, keys: Any, p: Any, w: Any, order: Any, texts: Any, spans: Any
) -> Any:
    """Where a window ends that takes in ties, as if the w copies at rank p (of the row in node 0) were not there."""
    if nodes[root, TOTAL] - w < high:
        return nodes[root, TOTAL] - w
    if high == 0:
        return 0
    last = at_rank(nodes, links, root, high - 1 if high - 1 < p else high - 1 + w)
    ends = through(nodes, links, root, last, order, keys, texts, spans)
    if w > 0 and compare_rows(nodes, 0, last, order, keys, texts, spans) <= 0:
        ends -= w
    return ends


@inlined
def _length(nodes: Any, root: Any, low: Any, high: Any, most: Any) -> Any:
    """Entries a range of ranks can take."""
    return min(max(min(high, nodes[root, TOTAL]) - low, 0), most)


@inlined
def _emit(
    nodes: Any, links: Any, root: Any, low: Any, old: Any, new: Any, p: Any, w: Any, sign: Any, most: Any, stack: Any,
    out: Any, counts: Any, given: Any,
) -> Any:  # fmt: skip
    """A tree that holds w copies at rank p; the window [low, new) over it, and the window [low, old) over it without
    them. Appends rows that are only in the first with `sign`, and rows that are only in the second with the opposite
    sign. If there is not enough room, it appends nothing and returns -1 minus the room needed."""
    first, last = min(old, p), max(low, p) + w  # between: ranks that the other window does not have
    needed = (
        _length(nodes, root, max(low, first), min(new, last), most)
        + _length(nodes, root, max(last, old + w), new, most)
        + _length(nodes, root, max(low, new), first, most)
        + _length(nodes, root, max(last, new), old + w, most)
    )
    if given + needed > len(counts):
        return -1 - needed
    given, _ = read(nodes, links, root, max(low, first), min(new, last), sign, stack, out, counts, given)
    given, _ = read(nodes, links, root, max(last, old + w), new, sign, stack, out, counts, given)
    given, _ = read(nodes, links, root, max(low, new), first, -sign, stack, out, counts, given)
    given, _ = read(nodes, links, root, max(last, new), old + w, -sign, stack, out, counts, given)
    return given


# Places in the progress of a move: the row to go on with, whether it is in the tree but not emitted yet, where its
# window ended before, the room that was missing, and whether more of a row is removed than is there.
AT, ADDED, OLD, NEEDED, WRONG = range(5)


@kernel(
    "i8(i4[::1], i8[:,::1], i8[::1], i8[:,::1], i8, i8, i8, i4[::1], i8[:,::1], i4[::1], i8[::1], i8, i8, i8[::1], "
    "i8[:,::1], i8[::1])"
)
def move_rows(
    groups: Any, rows: Any, weights: Any, order: Any, keys: Any, low: Any, high: Any, roots: Any, nodes: Any, free: Any,
    meta: Any, texts: Any, spans: Any, progress: Any, out: Any, counts: Any,
) -> Any:  # fmt: skip
    """Adds rows, and lists the resulting changes in the windows of their groups, until all rows are added or `out` is
    full; `keys` 0: windows without ties. Returns the number of entries."""
    links = nodes.view(np.int32)
    path, stack = np.empty(DEPTH, np.int64), np.empty(DEPTH, np.int64)
    given, old, new = 0, high, high
    while progress[AT] < len(groups):
        i = progress[AT]
        group, weight = groups[i], weights[i]
        for lane in range(rows.shape[1]):
            nodes[0, VALUE + lane] = rows[i, lane]
        found, depth, side, p = find(nodes, links, roots[group], order, texts, spans, path)
        if weight > 0 and progress[ADDED] == 0:
            if keys > 0:
                progress[OLD] = _end(nodes, links, roots[group], high, keys, p, 0, order, texts, spans)
            change(nodes, links, roots, group, free, meta, weight, found, depth, side, path)
            progress[ADDED] = 1
        elif weight < 0 and (found == 0 or nodes[found, COUNT] < -weight):
            progress[WRONG] = 1
            return given
        if keys > 0:
            new = _end(nodes, links, roots[group], high, keys, p, 0, order, texts, spans)
            old = progress[OLD]
            if weight < 0:
                old = _end(nodes, links, roots[group], high, keys, p, -weight, order, texts, spans)
        if low < high and p < max(old, new):
            sign = 1 if weight > 0 else -1
            emitted = _emit(
                nodes, links, roots[group], low, old, new, p, abs(weight), sign, meta[LIVE], stack, out, counts, given
            )
            if emitted < 0:
                progress[NEEDED] = -1 - emitted
                return given
            given = emitted
        if weight < 0:
            change(nodes, links, roots, group, free, meta, weight, found, depth, side, path)
        progress[ADDED] = 0
        progress[AT] += 1
    return given


@kernel("i8(i4[::1], i8[:,::1], i8, i8, i8, i4[::1], i8[:,::1], i8, i8, i8[::1], i8[:,::1], i8[::1], i4[::1])")
def window_rows(
    groups: Any, order: Any, keys: Any, low: Any, high: Any, roots: Any, nodes: Any, texts: Any, spans: Any,
    progress: Any, out: Any, counts: Any, owners: Any,
) -> Any:  # fmt: skip
    """The windows of groups, one after the other, as far as `out` has room. `progress` holds the place among the groups
    and the rank to go on from there; at the end the place is their number. `owners`: the place of each row's group.
    Each row counts as a node visited."""
    links = nodes.view(np.int32)
    stack = np.empty(DEPTH, np.int64)
    given = 0
    while progress[0] < len(groups) and given < len(counts):
        root, start = roots[groups[progress[0]]], given
        ends = high if keys == 0 else _end(nodes, links, root, high, keys, 0, 0, order, texts, spans)
        given, rank = read(nodes, links, root, max(low, progress[1]), ends, 1, stack, out, counts, given)
        nodes[NOWHERE, COUNT] += given - start
        for k in range(start, given):
            owners[k] = progress[0]
        if rank < min(ends, nodes[root, TOTAL]):
            progress[1] = rank
        else:
            progress[0] += 1
            progress[1] = 0
    return given


@kernel("i8(i4[::1], i8, i8, i8[:,::1], i8[:,::1], i8, i4[::1], i8, i8)")
def window_sizes(
    groups: Any, low: Any, high: Any, nodes: Any, order: Any, keys: Any, roots: Any, texts: Any, spans: Any
) -> Any:
    """The total number of rows in the windows of groups."""
    links = nodes.view(np.int32)
    total = 0
    for i in range(len(groups)):
        root = roots[groups[i]]
        ends = high if keys == 0 else _end(nodes, links, root, high, keys, 0, 0, order, texts, spans)
        total += max(min(ends, nodes[root, TOTAL]) - low, 0)
    return total


class Ranked:
    """Rows of `width` lanes in the given order, for each group number."""

    def __init__(self, scope: Scope, width: int, order: Int64s, pool: StringPool) -> None:
        self.order, self._pool = order, pool
        self.roots = scope.array("roots", np.int32)
        self.nodes = scope.array("nodes", np.int64, columns=VALUE + width)
        self._free = scope.array("free", np.int32)
        self._meta = scope.array("meta", np.int64)

    @property
    def live(self) -> int:
        """Distinct rows over all groups."""
        return int(self._meta.data[LIVE])

    def sizes(self, groups: Slots) -> Int64s:
        """Rows of groups."""
        found: Int64s = self.nodes.data[self.roots.data[groups], TOTAL]
        return found

    def _texts(self) -> tuple[int, int]:
        return self._pool.bytes.data.ctypes.data, self._pool.offsets.data.ctypes.data

    def move(
        self, groups: Slots, rows: Int64s, weights: Int64s, low: int = 0, high: int = 0, keys: int = 0
    ) -> tuple[Int64s, Int64s]:
        """Adds rows (removes them if the weight is negative) and returns the rows that entered and left the windows of
        their groups, with weights, not consolidated. Removals must precede additions."""
        meta = self._meta.data
        self.nodes.grow(int(meta[USED]) + len(groups) + 1)
        self._free.grow(self.nodes.capacity)
        room, progress = 2 * len(groups) + 64, np.zeros(5, np.int64)
        parts = []
        while progress[AT] < len(groups):
            out, counts = np.empty((room, rows.shape[1]), np.int64), np.empty(room, np.int64)
            given = move_rows(
                groups, rows, weights, self.order, keys, low, high, self.roots.data, self.nodes.data, self._free.data,
                meta, *self._texts(), progress, out, counts,
            )  # fmt: skip
            if progress[WRONG]:
                raise StateError("a row was removed more often than it was added; rebuild the view")
            parts.append((out[:given], counts[:given]))
            room = max(room, int(progress[NEEDED]))
        return np.concatenate([rows[:0], *(p[0] for p in parts)]), np.concatenate([weights[:0], *(p[1] for p in parts)])

    def windows(
        self, groups: Slots, room: int, low: int, high: int, keys: int = 0
    ) -> Iterator[tuple[Int64s, Int64s, Slots]]:
        """The rows of the windows of groups in order, `room` at a time: rows, counts, the place of each one's group."""
        progress = np.zeros(2, np.int64)
        while progress[0] < len(groups):
            out = np.empty((room, self.nodes.columns - VALUE), np.int64)
            counts, owners = np.empty(room, np.int64), np.empty(room, np.int32)
            given = window_rows(
                groups, self.order, keys, low, high, self.roots.data, self.nodes.data, *self._texts(), progress, out,
                counts, owners,
            )  # fmt: skip
            if given:
                yield out[:given], counts[:given], owners[:given]

    def count(self, groups: Slots, low: int, high: int, keys: int = 0) -> int:
        """Rows in the windows of groups."""
        return int(window_sizes(groups, low, high, self.nodes.data, self.order, keys, self.roots.data, *self._texts()))

    def mark(self, lane: int, marked: Bools) -> None:
        """Marks the pool ids stored in a lane of the rows."""
        mark_lane(self.roots.data, self.nodes.data, VALUE + lane, marked)

    def visits(self) -> int:
        """The nodes visited since they were last asked for; rows that enter and leave windows are not counted."""
        return visits(self.nodes.data)

    def reset(self) -> None:
        for array in (self.roots, self.nodes, self._free, self._meta):
            array.reset()
