"""Aggregates over the rows of a frame that are visible and on which no argument is NULL.

COUNT and SUM are differences of prefix sums, of integers in pieces of 32 bits so that nothing overflows on the way; MIN
and MAX are the value on another row; VARIANCE and STDDEV follow from the sums of values, of their squares, and of the
rounding errors of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sqlglot import exp

from freshet.aggregates import AGGREGATES
from freshet.aggregates import whole_sum as whole
from freshet.aggregates.variance import has_huge, squared
from freshet.errors import EvaluationError
from freshet.scalar import functions
from freshet.scalar.column import Column
from freshet.scalar.expression import Expression
from freshet.scalar.lanes import unpack, width
from freshet.scalar.types import BIGINT, DOUBLE
from freshet.state import wide
from freshet.state.arrays import Bools, Int64s
from freshet.state.exact_sum import Floats
from freshet.state.frames import extremes, frame_sums
from freshet.state.spread import SHRINK, SHRUNK, SUMS, spreads
from freshet.state.strings import StringPool
from freshet.windows.call import WindowCall
from freshet.windows.function import (
    BoundFunction,
    WindowFunction,
    WrittenWindow,
    also_spelled,
    rows_seen,
    window_function,
)
from freshet.windows.ordered_rows import OrderedRows
from freshet.windows.taking import taken
from freshet.windows.value_order import codes, valid_rows


@dataclass(slots=True)
class _Framed:
    """The rows that are aggregated, and where each row's frame starts and ends among them."""

    args: list[Column]
    counted: Bools
    low: Int64s
    high: Int64s

    @classmethod
    def of(cls, call: WindowCall, rows: OrderedRows) -> _Framed:
        args = [rows.columns[i] for i in call.args]
        counted = rows_seen(call, rows)
        for column in args:
            counted &= valid_rows(column)
        return cls(args, counted, *rows.frame(call.frame))

    def counts(self) -> Int64s:
        return self.sums(self.counted.astype(np.int64))

    def sums(self, numbers: Int64s) -> Int64s:
        """The sums of numbers, one per row, over each frame."""
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers)])
        sums: Int64s = before[self.high] - before[self.low]
        return sums


class _Total(WindowFunction):
    def bind(self, written: WrittenWindow) -> BoundFunction:
        written.reads("this")
        return self.over(written, [written.value(part) for part in _parts(written)])

    def over(self, written: WrittenWindow, args: Sequence[Expression]) -> BoundFunction:
        """The function over bound arguments."""
        kind = AGGREGATES[self.name].type([a.type for a in args])
        return BoundFunction(self.name, tuple(args), kind, True, filter=written.only)


def _parts(written: WrittenWindow) -> list[exp.Expr]:
    """The bound arguments."""
    first = written.call.this
    if isinstance(first, exp.Distinct):
        written.refuse("DISTINCT in a window function", "take the distinct rows in a FROM subquery")
    return [] if isinstance(first, exp.Star) else [first, *written.call.expressions]


# Counts and sums ------------------------------------------------------------------------------------------------


@window_function(exp.Count)
class FrameCount(_Total):
    name = "count"

    def bind(self, written: WrittenWindow) -> BoundFunction:
        written.reads("this", "expressions")
        args = [written.value(part) for part in _parts(written)]
        # an argument that is never NULL is counted for every row
        return self.over(written, [a for a in args if functions.nullable(a)])

    def over(self, written: WrittenWindow, args: Sequence[Expression]) -> BoundFunction:
        return BoundFunction(self.name, tuple(args), BIGINT, False, filter=written.only)

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        return Column(call.type, _Framed.of(call, rows).counts())


@also_spelled("count", exp.CountIf)
def count_if(written: WrittenWindow) -> BoundFunction:
    """Counts the rows on which its argument is true."""
    written.reads("this")
    (part,) = _parts(written)
    counted = written.condition(part)
    only = counted if written.only is None else functions.build("and", (written.only, counted))
    return BoundFunction("count", (), BIGINT, False, filter=only)


class _FrameSum(_Total):
    divided: ClassVar[bool]

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        frames = _Framed.of(call, rows)
        counts, argument = frames.counts(), frames.args[0]
        if argument.type.is_fraction:
            sums, _ = _double_sums([argument.data], frames)[0]
            return Column(call.type, sums / np.maximum(counts, 1) if self.divided else sums, counts > 0)
        state = np.column_stack([counts, *_whole_sums(argument, frames)])
        step = whole.sum_step(self.divided, call.type, argument.type, 0, 0, (call.type.lanes, 1))
        return self._finished(call, state, step, rows.pool)

    def _finished(self, call: WindowCall, state: Int64s, step: list[int], pool: StringPool) -> Column:
        out = np.zeros((len(state), width([call.type])), np.int64)
        places = np.arange(len(state), dtype=np.int32)
        if whole.finish(places, np.ascontiguousarray(state), np.array([step], np.int64), out) >= 0:
            name = self.name.upper()
            raise EvaluationError(f"{name} does not fit {call.type}; cast its argument to a type with more digits")
        return unpack(out, [call.type], pool)[0]


@window_function(exp.Sum)
class FrameSum(_FrameSum):
    name = "sum"
    divided = False


@window_function(exp.Avg)
class FrameAverage(_FrameSum):
    name = "avg"
    divided = True


# The least and the greatest -------------------------------------------------------------------------------------


class _FrameEnd(_Total):
    greatest: ClassVar[bool]

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        frames = _Framed.of(call, rows)
        places = np.empty(len(rows), np.int64)
        order = codes(frames.args[0], rows.pool)
        extremes(order, frames.counted, frames.low, frames.high, self.greatest, places)
        return taken(frames.args[0], places)


@window_function(exp.Min)
class FrameMin(_FrameEnd):
    name = "min"
    greatest = False


@window_function(exp.Max)
class FrameMax(_FrameEnd):
    name = "max"
    greatest = True


@also_spelled("min", exp.LogicalAnd)
def bool_and(written: WrittenWindow) -> BoundFunction:
    return _of_conditions(FrameMin(), written)


@also_spelled("max", exp.LogicalOr)
def bool_or(written: WrittenWindow) -> BoundFunction:
    return _of_conditions(FrameMax(), written)


def _of_conditions(function: _FrameEnd, written: WrittenWindow) -> BoundFunction:
    written.reads("this")
    return function.over(written, [written.condition(part) for part in _parts(written)])


# Spreads --------------------------------------------------------------------------------------------------------


class _FrameSpread(_Total):
    sample: ClassVar[bool]
    root: ClassVar[bool]

    def over(self, written: WrittenWindow, args: Sequence[Expression]) -> BoundFunction:
        kind = AGGREGATES[self.name].type([a.type for a in args])
        doubles = tuple(a if a.type == DOUBLE else functions.cast(a, DOUBLE) for a in args)
        return BoundFunction(self.name, doubles, kind, True, filter=written.only)

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        frames = _Framed.of(call, rows)
        counts, data = frames.counts(), frames.args[0].data
        sums = np.zeros((len(counts), SUMS))
        sums[:, :SHRUNK] = _moments(data, False, frames)
        if has_huge(data):
            sums[:, SHRUNK:] = _moments(data, True, frames)
        out = np.empty(len(counts))
        spreads(counts, sums, self.sample, self.root, out)
        return Column(call.type, out, counts > (1 if self.sample else 0))


@window_function(exp.Variance)
class FrameVarSamp(_FrameSpread):
    name = "var_samp"
    sample, root = True, False


@window_function(exp.VariancePop)
class FrameVarPop(_FrameSpread):
    name = "var_pop"
    sample, root = False, False


@window_function(exp.Stddev, exp.StddevSamp)
class FrameStddevSamp(_FrameSpread):
    name = "stddev_samp"
    sample, root = True, True


@window_function(exp.StddevPop)
class FrameStddevPop(_FrameSpread):
    name = "stddev_pop"
    sample, root = False, True


# Sums of frames -------------------------------------------------------------------------------------------------


def _moments(data: Floats, huge: bool, frames: _Framed) -> Floats:
    """The sums of frames, as two doubles, and of their squares, as three; either of huge values, all scaled down, or of
    the others."""
    values = data * SHRINK if huge else data
    (total, rest), (squares, lost), (rests, little) = _double_sums([values, *squared(data, huge)], frames)
    both = lost + rests
    back = both - lost
    return np.column_stack([total, rest, squares, both, little + ((lost - (both - back)) + (rests - back))])


def _double_sums(columns: list[Floats], frames: _Framed) -> list[tuple[Floats, Floats]]:
    """The sum of each frame, and its rounding error."""
    out = np.empty((len(frames.low), 2 * len(columns)))
    frame_sums(np.column_stack(columns), frames.counted, frames.low, frames.high, out)
    made = []
    for total, lost in zip(out.T[::2], out.T[1::2], strict=True):
        with np.errstate(invalid="ignore"):
            rounded = np.where(np.isfinite(total), total + lost, total)
            made.append((rounded, np.where(np.isfinite(rounded), lost - (rounded - total), 0.0)))
    return made


def _whole_sums(column: Column, frames: _Framed) -> list[Int64s]:
    """Exact sums as lanes: two for values of one lane, three for values of two."""
    lanes = [np.where(frames.counted, column.data, 0)]
    if column.type.lanes == 2:
        lanes.append(np.where(frames.counted, wide.high(column.data, column.hi), 0))
    pieces = [p for lane in lanes for p in (lane & 0xFFFFFFFF, (lane >> 32) & 0xFFFFFFFF)]
    pieces[-1] = lanes[-1] >> 32  # the highest has the sign
    out: list[Int64s] = []
    carry = np.zeros(len(frames.low), np.int64)
    for piece in pieces:
        total = frames.sums(piece) + carry
        out.append(total & 0xFFFFFFFF)
        carry = total >> 32
    return [*(out[k] | (out[k + 1] << 32) for k in range(0, len(out), 2)), carry]
