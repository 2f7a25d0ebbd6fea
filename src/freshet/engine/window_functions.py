"""The values of window functions over rows of whole partitions (see `window_frames`).

Ranks are differences of places; LAG, FIRST_VALUE and MIN are the value at another place; COUNT and SUM are differences
of prefix sums, of whole numbers in pieces of 32 bits so that nothing overflows on the way. A row that FILTER or IGNORE
NULLS leaves out is not seen: the others are numbered without it.
"""

from __future__ import annotations

import numpy as np

from freshet.aggregates import AGGREGATES
from freshet.aggregates import whole_sum as whole
from freshet.aggregates.spread import Spread
from freshet.aggregates.variance import has_huge, squared
from freshet.engine.value_order import codes, valid_rows
from freshet.engine.window_frames import Layout
from freshet.errors import EvaluationError
from freshet.logical.query import WindowCall
from freshet.scalar.column import Column
from freshet.scalar.lanes import unpack, values, width
from freshet.scalar.types import Type
from freshet.state import wide
from freshet.state.arrays import Bools, Int64s
from freshet.state.exact_sum import Floats
from freshet.state.frames import extremes, frame_sums
from freshet.state.spread import SHRINK, SHRUNK, SUMS, spreads
from freshet.state.strings import StringPool


def window_values(call: WindowCall, rows: Layout) -> Column:
    """The function's value on each row."""
    if call.function in _PLACES:
        return _ranked(call, rows)
    low, high = rows.frame(call.frame)
    args = [rows.columns[i] for i in call.args]
    if call.function in ("lag", "lead"):
        return _neighbour(call, rows, args)
    if call.function in ("first_value", "last_value", "nth_value"):
        return _framed_value(call, args[0], _seen(call, rows), low, high)
    if call.function in ("min", "max"):
        found = np.empty(len(rows), np.int64)
        seen = valid_rows(args[0]) & _seen(call, rows)
        extremes(codes(args[0], rows.pool), seen, low, high, call.function == "max", found)
        return _taken(args[0], found)
    return _summed(call, rows, args, low, high)


def _seen(call: WindowCall, rows: Layout) -> Bools:
    """The rows a function looks at."""
    seen = np.ones(len(rows), np.bool_)
    if call.filter is not None:
        passed = rows.columns[call.filter]
        seen &= (passed.data != 0) & valid_rows(passed)
    if call.ignore_nulls:
        seen &= valid_rows(rows.columns[call.args[0]])
    return seen


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


def _framed_value(call: WindowCall, value: Column, seen: Bools, low: Int64s, high: Int64s) -> Column:
    """The value on the first, last or n-th row of the frame that is seen."""
    places, before = _numbered(seen)
    first, last = before[low], before[high] - 1
    place = last if call.function == "last_value" else first + max(call.constant, 1) - 1
    return _taken(value, _at(places, place, (place >= first) & (place <= last)))


def _neighbour(call: WindowCall, rows: Layout, args: list[Column]) -> Column:
    here, by = np.arange(len(rows)), call.constant
    there = here
    if by:
        places, before = _numbered(_seen(call, rows))
        place = before[here + 1] + by - 1 if call.function == "lead" else before[here] - by
        there = _at(places, place, (place >= before[rows.starts]) & (place < before[rows.ends]))
    if len(args) == 1:
        return _taken(args[0], there)
    # The default is the row's own value of the second argument: both are read from one column of twice the length.
    return _taken(_stacked(args[0], args[1], rows.pool), np.where(there >= 0, there, len(rows) + here))


def _numbered(seen: Bools) -> tuple[Int64s, Int64s]:
    """Where the rows seen stand, and how many of them come before each place."""
    return np.flatnonzero(seen), np.concatenate([np.zeros(1, np.int64), np.cumsum(seen)])


def _at(places: Int64s, number: Int64s, there: Bools) -> Int64s:
    """The places of the rows with these numbers; -1 where there is none."""
    if not len(places):
        return np.full(len(number), -1, np.int64)
    return np.where(there, places[np.where(there, number, 0)], -1)


def _stacked(first: Column, second: Column, pool: StringPool) -> Column:
    lanes = np.concatenate([values(first, pool), values(second, pool)])
    valid = np.concatenate([valid_rows(first), valid_rows(second)])
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


# Counts and sums ------------------------------------------------------------------------------------------------


def _summed(call: WindowCall, rows: Layout, args: list[Column], low: Int64s, high: Int64s) -> Column:
    valid = _seen(call, rows)
    for column in args:
        valid &= valid_rows(column)
    counts = _between(valid.astype(np.int64), low, high)
    if call.function == "count":
        return Column(call.type, counts)
    aggregate = AGGREGATES[call.function]
    if isinstance(aggregate, Spread):
        return _spread(aggregate, call.type, args[0], valid, counts, low, high)
    if args[0].type.is_fraction:
        sums, _ = _double_sums([args[0].data], valid, low, high)[0]
        if call.function == "avg":
            sums = sums / np.maximum(counts, 1)
        return Column(call.type, sums, counts > 0)
    state = np.column_stack([counts, *_whole_sums(args[0], valid, low, high)])
    return _finished(call, args[0].type, state, rows.pool)


def _spread(
    aggregate: Spread, type_: Type, value: Column, valid: Bools, counts: Int64s, low: Int64s, high: Int64s
) -> Column:
    """VARIANCE and STDDEV, from the sums of values, of their squares, and of what those lost to rounding."""
    sums = np.zeros((len(counts), SUMS))
    sums[:, :SHRUNK] = _moments(value.data, False, valid, low, high)
    if has_huge(value.data):
        sums[:, SHRUNK:] = _moments(value.data, True, valid, low, high)
    out = np.empty(len(counts))
    spreads(counts, sums, aggregate.sample, aggregate.root, out)
    return Column(type_, out, counts > (1 if aggregate.sample else 0))


def _moments(data: Floats, huge: bool, valid: Bools, low: Int64s, high: Int64s) -> Floats:
    """The sums of frames, as two doubles, and of their squares, as three; of huge values, all shrunk, or of the
    others."""
    values = data * SHRINK if huge else data
    found = _double_sums([values, *squared(data, huge)], valid, low, high)
    (total, rest), (squares, lost), (rests, little) = found
    both = lost + rests
    back = both - lost
    return np.column_stack([total, rest, squares, both, little + ((lost - (both - back)) + (rests - back))])


def _double_sums(columns: list[Floats], valid: Bools, low: Int64s, high: Int64s) -> list[tuple[Floats, Floats]]:
    """The sum of each frame, and what rounding took from it."""
    out = np.empty((len(low), 2 * len(columns)))
    frame_sums(np.column_stack(columns), valid, low, high, out)
    made = []
    for total, lost in zip(out.T[::2], out.T[1::2], strict=True):
        with np.errstate(invalid="ignore"):
            rounded = np.where(np.isfinite(total), total + lost, total)
            made.append((rounded, np.where(np.isfinite(rounded), lost - (rounded - total), 0.0)))
    return made


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
