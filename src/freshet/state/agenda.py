"""Slots ordered by a time: inserted and removed in O(log n), the earliest found first.

A binary heap of slots: the slot at place i is due no sooner than that at i / 2. `place` has the position of each slot
in the heap, from 1 on, and 0 if it is not in the heap, so that a slot can be removed before it is due. Slots inserted
in order of time are never moved. `meta` has the size of the heap, and how many places were visited.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.arena import Scope
from freshet.state.arrays import Int64s
from freshet.state.kernel import inlined, kernel
from freshet.state.tuples import Slots

_SIZE, _VISITED = 0, 1  # places in meta
_TOGETHER = 1 << 16  # due slots that are taken out at a time


@inlined
def _settle(heap: Any, place: Any, times: Any, size: Any, at: Any, slot: Any) -> Any:
    """Puts a slot into a gap of the heap, moves it up or down as necessary, and returns how many places it visited."""
    time, start, visited = times[slot], at, np.int64(1)
    while at > 1 and times[heap[at >> 1]] > time:
        visited += 1
        heap[at] = heap[at >> 1]
        place[heap[at]] = at
        at >>= 1
    while at == start and 2 * at <= size:
        visited += 1
        child = 2 * at
        if child < size and times[heap[child + 1]] < times[heap[child]]:
            child += 1
        if times[heap[child]] >= time:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = start = child
    heap[at] = slot
    place[slot] = at
    return visited


@inlined
def _take_out(heap: Any, place: Any, times: Any, meta: Any, slot: Any) -> None:
    at, size = np.int64(place[slot]), meta[_SIZE] - 1
    place[slot] = 0
    meta[_SIZE] = size
    meta[_VISITED] += 1
    if at <= size:
        meta[_VISITED] += _settle(heap, place, times, size, at, heap[size + 1])


@kernel("void(i4[::1], i4[::1], i8[::1], i8[::1], i4[::1], i8[::1])")
def put_slots(heap: Any, place: Any, times: Any, meta: Any, slots: Any, when: Any) -> None:
    for i in range(slots.size):
        slot = slots[i]
        times[slot] = when[i]
        meta[_SIZE] += 1
        meta[_VISITED] += _settle(heap, place, times, meta[_SIZE], meta[_SIZE], slot)


@kernel("void(i4[::1], i4[::1], i8[::1], i8[::1], i4[::1])")
def take_slots(heap: Any, place: Any, times: Any, meta: Any, slots: Any) -> None:
    for i in range(slots.size):
        _take_out(heap, place, times, meta, slots[i])


@kernel("i8(i4[::1], i4[::1], i8[::1], i8[::1], i8, i4[::1])")
def take_due(heap: Any, place: Any, times: Any, meta: Any, until: Any, out: Any) -> Any:
    """Removes the slots that are due, as many as `out` has room for; returns their number."""
    n = 0
    while n < out.size and meta[0] > 0 and times[heap[1]] <= until:
        out[n] = heap[1]
        _take_out(heap, place, times, meta, out[n])
        n += 1
    return n


class Agenda:
    def __init__(self, scope: Scope) -> None:
        self.heap, self.place = scope.array("heap", np.int32), scope.array("place", np.int32)
        self.times, self.meta = scope.array("times", np.int64), scope.array("size", np.int64)

    def __len__(self) -> int:
        return int(self.meta.data[0])

    @property
    def first(self) -> int | None:
        """The earliest time."""
        return int(self.times.data[self.heap.data[1]]) if len(self) else None

    def put(self, slots: Slots, times: Int64s) -> None:
        """Inserts slots, each with its time."""
        if len(slots):
            room = int(slots.max()) + 1
            self.place.grow(room)
            self.times.grow(room)
            self.heap.grow(len(self) + len(slots) + 1)
            put_slots(self.heap.data, self.place.data, self.times.data, self.meta.data, slots, times)

    def visits(self) -> int:
        """The places of the heap visited since they were last asked for."""
        visited = int(self.meta.data[_VISITED])
        self.meta.data[_VISITED] = 0
        return visited

    def clear(self) -> None:
        self.place.reset()
        self.meta.data[0] = 0

    def take(self, slots: Slots) -> None:
        """Removes slots."""
        take_slots(self.heap.data, self.place.data, self.times.data, self.meta.data, slots)

    def due(self, until: int) -> Slots:
        """Removes and returns all slots that are due, in order of time."""
        parts = []
        while len(self) and self.times.data[self.heap.data[1]] <= until:
            out = np.empty(min(_TOGETHER, len(self)), np.int32)
            found = take_due(self.heap.data, self.place.data, self.times.data, self.meta.data, until, out)
            parts.append(out[:found])
        return np.concatenate(parts) if parts else np.empty(0, np.int32)
