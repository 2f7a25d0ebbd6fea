"""The state of a group for its aggregates, which is fed by rows with weights.

Calls over the same arguments, filter and DISTINCT share one `Feed`: SUM(x), AVG(x) and COUNT(x) are one count and one
sum. A feed turns rows into effective weights (0 if an argument is NULL or the filter is not true; for DISTINCT only the
transitions of a value between absent and present) and passes them to the state that its calls need: lanes of the
group's state row, an exact sum of doubles, an ordered multiset. All of these are linear in the weights, so deletes undo
inserts exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from freshet.aggregates.gathered import Gathered
from freshet.aggregates.variance import Squares
from freshet.aggregates.whole_sum import add_whole, add_wide
from freshet.errors import EvaluationError
from freshet.scalar import lanes
from freshet.scalar.column import Column
from freshet.scalar.expression import AggregateCall
from freshet.scalar.functions.rows import ALL
from freshet.scalar.types import INTEGER_RANGE, Type
from freshet.state import checked, ordered, wide
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.bit_counts import BitCounts
from freshet.state.exact_sum import ExactSum
from freshet.state.kernel import kernel
from freshet.state.ordered import Ordered
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots, Tuples


@kernel("void(i4[::1], i8[::1], i8[:,::1], i8)")
def _add_counts(groups: Any, weights: Any, state: Any, lane: Any) -> None:
    for i in range(len(groups)):
        state[groups[i], lane] += weights[i]


@kernel("void(i8[::1], b1[::1], i8[::1])")
def _mask(weights: Any, keep: Any, out: Any) -> None:
    for i in range(len(weights)):
        out[i] = weights[i] if keep[i] else 0


@kernel("i8(i4[::1], i8[::1], i8[::1], i8[::1], i4[::1])")
def _steps(slots: Any, weights: Any, counts: Any, steps: Any, emptied: Any) -> Any:
    """Counts values; steps[i] is +1 if a value appears, -1 if it vanishes. Returns the number of values with count
    zero."""
    for i in range(len(slots)):
        before = counts[slots[i]]
        after = before + weights[i]
        counts[slots[i]] = after
        steps[i] = (1 if after > 0 else 0) - (1 if before > 0 else 0)
    gone = 0
    listed = np.iinfo(np.int64).min
    for i in range(len(slots)):
        if counts[slots[i]] == 0:
            counts[slots[i]] = listed
            emptied[gone] = slots[i]
            gone += 1
    for i in range(gone):
        counts[emptied[i]] = 0
    return gone


def _multiplied(weights: Int64s, copies: Column) -> Int64s:
    out = np.empty(len(weights), np.int64)
    if checked.multiply(weights, copies.data, ALL, *INTEGER_RANGE["BIGINT"], out) >= 0:
        raise EvaluationError("a sum over more joined rows than BIGINT can count; join fewer tables")
    return out


class Distinct:
    """The distinct argument rows of each group, counted."""

    def __init__(self, scope: Scope, pool: StringPool, types: Sequence[Type]) -> None:
        self._pool, self._types = pool, types
        self._rows = Tuples(scope.scope("rows"), 1 + lanes.width(types))
        self._counts = scope.array("counts", np.int64)

    def steps(self, groups: Slots, args: Sequence[Column], weights: Int64s) -> Int64s:
        """The weights of distinct values in the accumulators: +1, -1 or 0 per row."""
        live = np.flatnonzero(weights)
        if len(live) < len(weights):
            out = np.zeros(len(weights), np.int64)
            if len(live):
                out[live] = self.steps(groups[live], [a.take(live) for a in args], weights[live])
            return out
        rows = lanes.pack(args, self._pool, len(weights), lead=1)
        rows[:, 0] = groups
        slots = self._rows.add(rows)
        self._counts.grow(self._rows.used)
        out, emptied = np.empty(len(weights), np.int64), np.empty(len(weights), np.int32)
        left = _steps(slots, weights, self._counts.data, out, emptied)
        if left:
            self._rows.remove(emptied[:left])
        return out

    def mark(self, marked: Bools) -> None:
        mark_texts(self._rows.lanes.data, self._rows.slots(), self._types, 1, marked)

    def reset(self) -> None:
        self._rows.reset()
        self._counts.reset()


def mark_texts(rows: Int64s, slots: Slots, types: Sequence[Type], lead: int, marked: Bools) -> None:
    """Marks the pool ids in those rows of lanes that `slots` names."""
    for type, lane in zip(types, lanes.layout(types), strict=True):
        if type.pooled:
            marked[rows[slots, lead + lane]] = True


class Feed:
    """The state of the calls over one list of arguments. `count` is its first lane in the state row, the number of
    effective rows; the sum comes after it."""

    def __init__(self, scope: Scope, pool: StringPool, call: int, description: AggregateCall, lane: int) -> None:
        self.call, self.count, self.lanes = call, lane, 0
        self._pool = pool
        self._scope = scope
        self._types = tuple(a.type for a in description.args)
        self._copies = description.copies is not None
        self.distinct = Distinct(scope.scope("distinct"), pool, self._types) if description.distinct else None
        self.whole = False
        self.exact: ExactSum | None = None
        self.squares: Squares | None = None
        self.ordered: Ordered | None = None
        self.values: Gathered | None = None
        self.bits: BitCounts | None = None

    @property
    def wide(self) -> bool:
        return self._types[0].lanes == 2

    @property
    def is_plain(self) -> bool:
        """Whether all it keeps are a count and a sum of whole numbers, for each group."""
        more = (self.distinct, self.exact, self.squares, self.ordered, self.values, self.bits)
        return not self._copies and all(structure is None for structure in more)

    def counted(self) -> None:
        """Also keeps the number of effective rows."""
        self.lanes = max(self.lanes, 1)

    def summed(self) -> None:
        """Also keeps the sum of the first argument."""
        self.counted()
        if self._types[0].is_fraction:
            self.exact = self.exact or ExactSum(self._scope.scope("sum"))
        else:
            self.whole, self.lanes = True, 4 if self.wide else 3

    def squared(self) -> None:
        """Also keeps the sum of the first argument and that of its squares."""
        self.summed()
        self.squares = self.squares or Squares(self._scope.scope("squares"))

    def sorted(self) -> None:
        """Also keeps the first argument's values in order."""
        kind = ordered.INTEGER
        if self._types[0].is_fraction:
            kind = ordered.FRACTION
        elif self._types[0].pooled:
            kind = ordered.TEXT
        elif self.wide:
            kind = ordered.WIDE
        pool = self._pool if kind == ordered.TEXT else None
        self.ordered = self.ordered or Ordered(self._scope.scope("ordered"), kind, pool)

    def gathered(self, call: AggregateCall) -> None:
        """Also keeps the values themselves, in order."""
        self.values = self.values or Gathered(self._scope.scope("values"), self._pool, self._types, call)

    def by_bit(self) -> None:
        """Also keeps how often each bit of the first argument is set."""
        self.counted()
        self.bits = self.bits or BitCounts(self._scope.scope("bits"))

    def reserve(self, groups: int) -> None:
        for structure in (self.exact, self.squares, self.ordered, self.values, self.bits):
            if structure is not None:
                structure.reserve(groups)

    def visits(self) -> int:
        """The nodes of ordered structures visited since they were last asked for."""
        return sum(structure.visits() for structure in (self.ordered, self.values) if structure is not None)

    def apply(self, groups: Slots, args: Sequence[Column], keep: Bools | None, weights: Int64s, state: Int64s) -> None:
        copies: Column | None = None
        if self._copies:
            *args, copies = args
        known = args if self.values is None else args[:1]  # values that are only for ordering may be NULL
        for column in known if copies is None else (*known, copies):
            if column.valid is not None:
                keep = column.valid if keep is None else keep & column.valid
        if keep is not None:
            masked = np.empty(len(weights), np.int64)
            _mask(weights, np.ascontiguousarray(keep), masked)
            weights = masked
        if self.distinct is not None:
            weights = self.distinct.steps(groups, args, weights)
        if self.whole:
            low = np.ascontiguousarray(args[0].data, np.int64)
            if self.wide:
                add_wide(groups, low, np.ascontiguousarray(wide.high(low, args[0].hi)), weights, state, self.count)
            else:
                add_whole(groups, low, weights, state, self.count)
        elif self.lanes:
            _add_counts(groups, weights, state, self.count)
        if self.exact is not None:
            counted = weights if copies is None else _multiplied(weights, copies)
            for column in args:
                self.exact.add(groups, np.ascontiguousarray(column.data, np.float64), counted)
        if self.squares is not None:
            self.squares.add(groups, args[0].data, weights)
        if self.ordered is not None:
            self.ordered.add(groups, lanes.values(args[0], self._pool), weights)
        if self.values is not None:
            self.values.add(groups, args, weights)
        if self.bits is not None:
            self.bits.add(groups, args[0].data, weights)

    def clear(self, groups: Slots) -> None:
        for sums in (self.exact, self.squares):
            if sums is not None:
                sums.clear(groups)

    def mark(self, marked: Bools) -> None:
        if self.distinct is not None:
            self.distinct.mark(marked)
        if self.ordered is not None:
            self.ordered.mark(marked)
        if self.values is not None:
            self.values.mark(marked)

    def reset(self) -> None:
        kept: tuple[Any, ...] = (self.distinct, self.exact, self.squares, self.ordered, self.values, self.bits)
        for structure in kept:
            if structure is not None:
                structure.reset()
