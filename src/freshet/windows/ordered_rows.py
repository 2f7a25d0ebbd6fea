"""The rows of each row's frame, over whole partitions, one partition after the other, each in its order.

Everything follows from four positions of a row: where its partition starts and ends, and where the rows that tie with
it start and end. A bound of RANGE is a value to search among the keys. Both keys and bounds are in order, so one merge
pass finds all of them. A NULL key has no distance to other keys: such a row's frame ends with its ties.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Literal, SortKey
from freshet.scalar.functions.datetime import DAY, MOST_MONTHS, moved
from freshet.scalar.types import INTEGER_RANGE
from freshet.state import wide
from freshet.state.arrays import Bools, Int64s
from freshet.state.frames import reach
from freshet.state.strings import StringPool
from freshet.windows.call import Frame, FrameEnd, FrameUnit
from freshet.windows.value_order import codes

_LEAST, _GREATEST = INTEGER_RANGE["BIGINT"]


@dataclass(slots=True)
class OrderedRows:
    """Rows in order. `starts` and `ends`: of each row's partition; `ties` and `tie_ends`: of the rows that tie with
    it; `order`: the keys they are ordered by."""

    columns: list[Column]
    starts: Int64s
    ends: Int64s
    ties: Int64s
    tie_ends: Int64s
    order: tuple[SortKey, ...]
    pool: StringPool

    @classmethod
    def of(
        cls, columns: list[Column], fresh: Bools, differs: Bools, order: tuple[SortKey, ...], pool: StringPool
    ) -> OrderedRows:
        """`fresh`: rows that begin a partition; `differs`: rows that do not tie with the one before."""
        return cls(columns, *_runs(fresh), *_runs(fresh | differs), order, pool)

    def __len__(self) -> int:
        return len(self.starts)

    def frame(self, frame: Frame) -> tuple[Int64s, Int64s]:
        """Where each row's frame starts and ends."""
        if frame.unit is FrameUnit.RANGE:
            high = self._range_end(frame.end)
            low = self._range_start(frame.start, high)
        else:
            here, start, end = np.arange(len(self)), frame.start, frame.end
            assert not isinstance(start, Literal) and not isinstance(end, Literal)
            low = self.starts if start is None else np.clip(here + start, self.starts, self.ends)
            high = self.ends if end is None else np.clip(here + end + 1, self.starts, self.ends)
        return low, np.maximum(low, high)

    def _range_end(self, end: FrameEnd) -> Int64s:
        if not isinstance(end, Literal):
            return self.ends if end is None else self.tie_ends
        places, unfit = self._reached(end, True)
        self._refuse(unfit & (self._before(places) < self.ends))
        return places

    def _range_start(self, start: FrameEnd, high: Int64s) -> Int64s:
        if not isinstance(start, Literal):
            return self.starts if start is None else self.ties
        places, unfit = self._reached(start, False)
        self._refuse(unfit & (self._before(places) < high))
        return places

    def _before(self, places: Int64s) -> Int64s:
        """The result of the row before; for the first row of a partition, the start of the partition."""
        before = np.empty_like(places)
        before[1:] = places[:-1]
        fresh = self.starts == np.arange(len(self))
        before[fresh] = self.starts[fresh]
        return before

    def _refuse(self, unfit: Bools) -> None:
        """As in Spark, a sum that does not fit is an error on a row whose frame depends on it: if there are rows left
        to add to the frame or to remove from it, not if the pass has ended before."""
        if unfit.any():
            key = self.columns[self.order[0].column].type
            raise EvaluationError(f"the end of a RANGE frame does not fit {key}; order by a wider type")

    def _reached(self, offset: Literal, beyond: bool) -> tuple[Int64s, Bools]:
        """For each row the first row whose key is not before its own plus the offset, or is beyond it; and the rows for
        which this sum does not fit the key's type."""
        key, descending = self.columns[self.order[0].column], self.order[0].descending
        sums, unfit = _sums(key, offset, descending)
        both = codes(_stacked(key, sums), self.pool)
        keys, bounds = both[: len(key)], both[len(key) :]
        if descending:
            keys, bounds = ~keys, ~bounds
        starts, ends = self.starts, self.ends
        if key.valid is not None:
            counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(key.valid)])
            known = counts[self.ends] - counts[self.starts]
            starts = self.starts + (self.ends - self.starts - known if self.order[0].nulls_first else 0)
            keys, bounds = np.where(key.valid, keys, 0), np.where(key.valid, bounds, 0)
            starts, ends = (
                np.where(key.valid, starts, self.ties),
                np.where(key.valid, starts + known, self.tie_ends),
            )
        out = np.empty(len(self), np.int64)
        reach(np.ascontiguousarray(keys), np.ascontiguousarray(bounds), starts, ends, beyond, out)
        return out, unfit


def _runs(fresh: Bools) -> tuple[Int64s, Int64s]:
    """For each row the first row of its run, and the row after the last one."""
    firsts = np.flatnonzero(fresh)
    lengths = np.diff(firsts, append=len(fresh))
    return np.repeat(firsts, lengths), np.repeat(firsts + lengths, lengths)


def _sums(key: Column, offset: Literal, descending: bool) -> tuple[Column, Bools]:
    """The key plus the offset, or minus it; if the sum does not fit, the nearest valid value, and a mark."""
    assert isinstance(offset.value, (int, float))
    by = -offset.value if descending else offset.value
    unfit = np.zeros(len(key), np.bool_)
    if key.type.is_fraction:
        data = key.data + by
        if key.type.name == "FLOAT":
            with np.errstate(over="ignore"):
                data = data.astype(np.float32).astype(np.float64)
        return Column(key.type, data), unfit
    assert isinstance(by, int)
    if offset.type.name == "MONTHS" and not key.type.is_interval:
        months = np.full(1, max(-MOST_MONTHS, min(by, MOST_MONTHS)), np.int64)  # beyond every date
        if key.type.name == "DATE":
            return Column(key.type, moved(key.data, months)), unfit
        return Column(key.type, moved(key.data // DAY, months) * DAY + key.data % DAY), unfit
    if key.type.lanes == 2:
        return _wide_sums(key, by)
    least, greatest = INTEGER_RANGE.get("INT" if key.type.name == "MONTHS" else key.type.name, (_LEAST, _GREATEST))
    far = key.data > greatest - by if by > 0 else key.data < least - by
    sums = np.where(far, _GREATEST if by > 0 else _LEAST, key.data + np.where(far, 0, by))
    unfit = far if key.valid is None else far & key.valid
    return Column(key.type, sums), unfit


def _wide_sums(key: Column, by: int) -> tuple[Column, Bools]:
    """The same for decimals of two lanes."""
    (high, low), (top, bottom) = wide.split(by), wide.split(10**38 if by > 0 else -(10**38))
    data, before = key.data + np.int64(low), wide.high(key.data, key.hi)
    hi = before + np.int64(high) + (data.view(np.uint64) < key.data.view(np.uint64))
    limit_hi, limit_lo = np.full(1, top, np.int64), np.full(1, bottom, np.int64)
    far = hi < before if by > 0 else hi > before  # past 127 bits
    far |= ~(wide.less(hi, data, limit_hi, limit_lo) if by > 0 else wide.less(limit_hi, limit_lo, hi, data))
    unfit = far if key.valid is None else far & key.valid
    return Column(key.type, np.where(far, bottom, data), None, np.where(far, top, hi)), unfit


def _stacked(key: Column, sums: Column) -> Column:
    hi = None
    if key.type.lanes == 2:
        hi = np.concatenate([wide.high(c.data, c.hi) for c in (key, sums)])
    valid = None if key.valid is None else np.concatenate([key.valid, key.valid])
    return Column(key.type, np.concatenate([key.data, sums.data]), valid, hi)
