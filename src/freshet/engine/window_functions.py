"""The values of window functions over rows of whole partitions, one partition after the other, each in its order.

Everything follows from four places a row knows: where its partition starts and ends, and where the rows that tie with
it do. Ranks are differences of places; LAG, FIRST_VALUE and MIN are the value at another place; COUNT and SUM are
differences of prefix sums, of whole numbers in pieces of 32 bits so that nothing overflows on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from freshet.column import Bools, Column, Int64s
from freshet.engine import whole_sum as whole
from freshet.engine.lanes import unpack, values, width
from freshet.errors import EvaluationError
from freshet.sql.bound import Frame, WindowCall
from freshet.state import wide
from freshet.state.frames import double_sums, extremes
from freshet.state.ordered import fraction_order
from freshet.state.strings import StringPool
from freshet.types import Type


@dataclass(slots=True)
class Layout:
    """Rows in order. `starts` and `ends`: of each row's partition; `ties` and `tie_ends`: of the rows that tie with
    it."""

    columns: list[Column]
    starts: Int64s
    ends: Int64s
    ties: Int64s
    tie_ends: Int64s
    pool: StringPool

    @classmethod
    def of(cls, columns: list[Column], fresh: Bools, differs: Bools, pool: StringPool) -> Layout:
        """`fresh`: rows that begin a partition; `differs`: rows that do not tie with the one before."""
        return cls(columns, *_runs(fresh), *_runs(fresh | differs), pool)

    def __len__(self) -> int:
        return len(self.starts)

    def frame(self, frame: Frame) -> tuple[Int64s, Int64s]:
        """Where each row's frame starts and ends."""
        here = np.arange(len(self))
        if frame.unit == "range":
            low = self.starts if frame.start is None else self.ties
            return low, self.ends if frame.end is None else self.tie_ends
        low = self.starts if frame.start is None else np.clip(here + frame.start, self.starts, self.ends)
        high = self.ends if frame.end is None else np.clip(here + frame.end + 1, self.starts, self.ends)
        return low, np.maximum(low, high)


def _runs(fresh: Bools) -> tuple[Int64s, Int64s]:
    """For each row the first row of its run, and the row after its last one."""
    firsts = np.flatnonzero(fresh)
    lengths = np.diff(firsts, append=len(fresh))
    return np.repeat(firsts, lengths), np.repeat(firsts + lengths, lengths)


def window_values(call: WindowCall, rows: Layout) -> Column:
    """The function's value on each row."""
    if call.function in _PLACES:
        return _ranked(call, rows)
    low, high = rows.frame(call.frame)
    args = [rows.columns[i] for i in call.args]
    if call.function in ("lag", "lead"):
        return _neighbour(call, rows, args)
    if call.function == "first_value":
        return _taken(args[0], np.where(low < high, low, -1))
    if call.function == "last_value":
        return _taken(args[0], np.where(low < high, high - 1, -1))
    if call.function == "nth_value":
        return _taken(args[0], np.where(low + call.constant <= high, low + call.constant - 1, -1))
    if call.function in ("min", "max"):
        found = np.empty(len(rows), np.int64)
        extremes(_codes(args[0], rows.pool), _valid(args[0]), low, high, call.function == "max", found)
        return _taken(args[0], found)
    return _summed(call, rows, args, low, high)


# Ranks ----------------------------------------------------------------------------------------------------------

_PLACES = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")


def _ranked(call: WindowCall, rows: Layout) -> Column:
    here, many = np.arange(len(rows)), rows.ends - rows.starts
    if call.function == "row_number":
        return Column(call.type, here - rows.starts + 1)
    if call.function == "rank":
        return Column(call.type, rows.ties - rows.starts + 1)
    if call.function == "dense_rank":
        seen = np.cumsum(rows.ties == here)
        return Column(call.type, seen - seen[rows.starts] + 1)
    if call.function == "percent_rank":
        return Column(call.type, (rows.ties - rows.starts) / np.maximum(many - 1, 1))
    if call.function == "cume_dist":
        return Column(call.type, (rows.tie_ends - rows.starts) / many)
    size, extra = many // call.constant, many % call.constant  # NTILE: the first `extra` buckets have one row more
    place, longer = here - rows.starts, extra * (size + 1)
    late = extra + (place - longer) // np.maximum(size, 1)
    return Column(call.type, np.where(place < longer, place // (size + 1), late) + 1)


# Values at other places -----------------------------------------------------------------------------------------


def _neighbour(call: WindowCall, rows: Layout, args: list[Column]) -> Column:
    here = np.arange(len(rows))
    there = here + (call.constant if call.function == "lead" else -call.constant)
    inside = (there >= rows.starts) & (there < rows.ends)
    if len(args) == 1:
        return _taken(args[0], np.where(inside, there, -1))
    # The default is the row's own value of the second argument: both are read from one column of twice the length.
    return _taken(_stacked(args[0], args[1], rows.pool), np.where(inside, there, len(rows) + here))


def _stacked(first: Column, second: Column, pool: StringPool) -> Column:
    lanes = np.concatenate([values(first, pool), values(second, pool)])
    valid = np.concatenate([_valid(first), _valid(second)])
    nulls = np.where(valid, 0, 1).reshape(-1, 1)
    return unpack(np.concatenate([lanes, nulls], axis=1), [first.type], pool)[0]


def _taken(column: Column, places: Int64s) -> Column:
    """The column's values at places; NULL at -1."""
    if not len(column):
        return column
    found = column.take(np.maximum(places, 0))
    missing = places < 0
    if missing.any():
        found.valid = ~missing if found.valid is None else found.valid & ~missing
    return found


def _valid(column: Column) -> Bools:
    return np.ones(len(column), np.bool_) if column.valid is None else np.ascontiguousarray(column.valid)


def _codes(column: Column, pool: StringPool) -> Int64s:
    """Integers that sort like the values."""
    lanes = values(column, pool)
    if column.type.is_fraction:
        return fraction_order(np.ascontiguousarray(lanes[:, 0]))
    if column.type.name == "STRING":
        valid, codes = _valid(column), np.zeros(len(column), np.int64)
        ids, which = np.unique(lanes[valid, 0], return_inverse=True)
        ranks = np.empty(len(ids), np.int64)
        ranks[pc.sort_indices(pool.text(ids)).to_numpy()] = np.arange(len(ids))
        codes[valid] = ranks[which]
        return codes
    if column.type.lanes == 2:
        ranks = np.empty(len(lanes), np.int64)
        ranks[np.lexsort((lanes[:, 0].view(np.uint64), lanes[:, 1]))] = np.arange(len(lanes))
        return ranks
    return np.ascontiguousarray(lanes[:, 0])


# Counts and sums ------------------------------------------------------------------------------------------------


def _summed(call: WindowCall, rows: Layout, args: list[Column], low: Int64s, high: Int64s) -> Column:
    valid = np.ones(len(rows), np.bool_)
    for column in args:
        valid &= _valid(column)
    counts = _between(valid.astype(np.int64), low, high)
    if call.function == "count":
        return Column(call.type, counts)
    if args[0].type.is_fraction:
        sums = np.empty(len(rows))
        double_sums(np.ascontiguousarray(args[0].data), valid, low, high, sums)
        if call.function == "avg":
            sums /= np.maximum(counts, 1)
        return Column(call.type, sums, counts > 0)
    state = np.column_stack([counts, *_whole_sums(args[0], valid, low, high)])
    return _finished(call, args[0].type, state, rows.pool)


def _between(numbers: Int64s, low: Int64s, high: Int64s) -> Int64s:
    """Sums of frames."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers)])
    found: Int64s = before[high] - before[low]
    return found


def _whole_sums(column: Column, valid: Bools, low: Int64s, high: Int64s) -> list[Int64s]:
    """Exact sums as lanes: two for values of one lane, three for values of two."""
    lanes = [np.where(valid, column.data, 0)]
    if column.type.lanes == 2:
        lanes.append(np.where(valid, wide.high(column.data, column.hi), 0))
    pieces = [p for lane in lanes for p in (lane & 0xFFFFFFFF, (lane >> 32) & 0xFFFFFFFF)]
    pieces[-1] = lanes[-1] >> 32  # the uppermost has the sign
    out: list[Int64s] = []
    carry = np.zeros(len(low), np.int64)
    for piece in pieces:
        total = _between(piece, low, high) + carry
        out.append(total & 0xFFFFFFFF)
        carry = total >> 32
    return [*(out[k] | (out[k + 1] << 32) for k in range(0, len(out), 2)), carry]


def _finished(call: WindowCall, argument: Type, state: Int64s, pool: StringPool) -> Column:
    out = np.zeros((len(state), width([call.type])), np.int64)
    step = whole.sum_step(call.function == "avg", call.type, argument, 0, 0, (call.type.lanes, 1))
    places = np.arange(len(state), dtype=np.int32)
    if whole.finish(places, np.ascontiguousarray(state), np.array([step], np.int64), out) >= 0:
        message = f"{call.function.upper()} does not fit {call.type}; cast its argument to a type with more digits"
        raise EvaluationError(message)
    return unpack(out, [call.type], pool)[0]
