"""Packed rows with weights: the form in which deltas travel between operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from freshet.budget import hold, look
from freshet.errors import EvaluationError
from freshet.state.arrays import Int64s
from freshet.state.enumeration import MOST_COPIES, consolidate

TOO_MANY_COPIES = f"a row of the answer would have more than {MOST_COPIES:,} copies; select fewer copies, or count them"


@dataclass(slots=True)
class Rows:
    lanes: Int64s  # [rows, lanes], as scalar/lanes packs them
    weights: Int64s

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def nbytes(self) -> int:
        return self.lanes.nbytes + self.weights.nbytes


class Sink(Protocol):
    """Receives rows in chunks, as they are produced: a list stores them, an operator processes them at once."""

    def extend(self, chunks: Iterable[Rows], /) -> None: ...


class HeldRows(list[Rows]):
    """A sink that stores rows, and counts their memory until it is cleared or the transaction ends."""

    def append(self, rows: Rows, /) -> None:
        hold(rows.nbytes)
        super().append(rows)

    def extend(self, chunks: Iterable[Rows], /) -> None:
        for rows in chunks:
            self.append(rows)

    def take(self) -> list[Rows]:
        """Returns the rows so far, whose memory remains counted."""
        rows = self[:]
        super().clear()
        return rows

    def clear(self) -> None:
        hold(-sum(rows.nbytes for rows in self))
        super().clear()


# The description of a buffer for kernels: the addresses of lanes and weights, its capacity, its rows, and the lanes of
# a row.
BUFFER_LANES, BUFFER_WEIGHTS, BUFFER_ROOM, BUFFER_COUNT, BUFFER_WIDTH, BUFFER_NUMBER = range(6)
_LEAST, _MOST = 64, 1 << 14  # rows that a buffer has room for when it is empty


class RowBuffer:
    """Rows that kernels append; `number` identifies the buffer when they request more room."""

    def __init__(self, width: int, number: int) -> None:
        self.row = np.zeros(6, np.int64)
        self.row[BUFFER_WIDTH], self.row[BUFFER_NUMBER] = width, number
        self._width = width
        self._make(_LEAST)

    def _make(self, room: int) -> None:
        self._lanes, self._weights = np.empty((room, self._width), np.int64), np.empty(room, np.int64)
        self.row[BUFFER_LANES], self.row[BUFFER_WEIGHTS] = self._lanes.ctypes.data, self._weights.ctypes.data
        self.row[BUFFER_ROOM] = room

    def __len__(self) -> int:
        return int(self.row[BUFFER_COUNT])

    def make_room(self, rows: int) -> None:
        """Room for so many rows more."""
        n, room = len(self), len(self._weights)
        if n + rows > room:
            lanes, weights = self._lanes, self._weights
            hold((max(2 * room, n + rows) - room) * 8 * (self._width + 1))
            self._make(max(2 * room, n + rows))
            self._lanes[:n], self._weights[:n] = lanes[:n], weights[:n]

    def put(self, rows: Rows) -> None:
        n, more = len(self), len(rows)
        self.make_room(more)
        self._lanes[n : n + more], self._weights[n : n + more] = rows.lanes, rows.weights
        self.row[BUFFER_COUNT] = n + more

    def take(self) -> Rows:
        """Returns the rows and empties the buffer."""
        n = len(self)
        if n == 0:
            return no_rows(self._width)
        self.row[BUFFER_COUNT] = 0
        if len(self._weights) <= _MOST:
            return Rows(self._lanes[:n].copy(), self._weights[:n].copy())
        rows = Rows(self._lanes[:n], self._weights[:n])
        self._make(_LEAST)
        return rows


@cache
def no_rows(width: int) -> Rows:
    return Rows(np.empty((0, width), np.int64), np.empty(0, np.int64))


def joined(parts: Sequence[Rows], width: int) -> Rows:
    if not parts:
        return no_rows(width)
    if len(parts) == 1:
        return parts[0]
    hold(sum(p.nbytes for p in parts))
    return Rows(np.concatenate([p.lanes for p in parts]), np.concatenate([p.weights for p in parts]))


def consolidated(parts: Sequence[Rows], width: int) -> Rows:
    """Adds up equal rows, and drops sums of zero. Overwrites the weights of the parts."""
    look()
    whole = joined(parts, width)
    lanes, weights = whole.lanes, whole.weights
    chosen = np.empty(len(weights), np.int64)
    found = consolidate(lanes, weights, chosen)
    if found < 0:
        raise EvaluationError(TOO_MANY_COPIES)
    chosen = chosen[:found]
    if len(chosen) == len(weights):
        return Rows(lanes, weights)
    return Rows(lanes[chosen], weights[chosen])


def multiplied(weights: Int64s, copies: Sequence[Int64s]) -> Int64s:
    """Multiplies the weights of rows by numbers of copies."""
    if not copies:
        return weights
    about = np.abs(weights).astype(np.float64)
    for c in copies:
        about *= c
        weights = weights * c
    if (about > MOST_COPIES).any():
        raise EvaluationError(TOO_MANY_COPIES)
    return weights


def added_up(weights: Int64s) -> int:
    """The sum of weights, whatever its size."""
    return int(weights.sum() if np.abs(weights).sum(dtype=np.float64) < MOST_COPIES else weights.sum(dtype=object))


def repeated(weights: Int64s, rows: int) -> Iterator[Int64s]:
    """Positions of rows, each repeated by its weight, at most `rows` at a time."""
    ends = np.cumsum(weights)
    last = int(ends[-1]) if len(ends) else 0
    for start in range(0, last, rows):
        look()
        yield np.searchsorted(ends, np.arange(start, min(start + rows, last)), side="right")
