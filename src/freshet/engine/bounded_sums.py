"""Sums below a bound (AJU's join-select-aggregate): for each key, over the rows whose value compares with its bound.

The rows of a key are an ordered multiset of values with partial sums in its nodes (state/ordered): one that counts them
and, for each measure, three: the number of its non-NULL values, and the sums of their high and low 32 bits. So the sums
below any bound take O(log n), whether one row is inserted or the bound moves past a thousand rows, and they are exact:
a sum of 32-bit parts fits 64 bits. `emitted` holds the sums of the last answer, so a transaction emits the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from freshet.aggregates.accumulators import mark_texts
from freshet.engine.maintained import Maintained, Outlet, keeps, maintain
from freshet.engine.table import Table
from freshet.engine.work import FED, PLACED
from freshet.errors import EvaluationError
from freshet.plans.model import BoundedSumsPlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import leading, pack, unpack, values, width
from freshet.scalar.types import BIGINT, Type
from freshet.state import wide
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.ordered import FRACTION, INTEGER, WIDE, Ordered
from freshet.state.rows import Rows, consolidated, joined
from freshet.state.strings import StringPool
from freshet.state.treap import TOTAL
from freshet.state.tuples import Slots, Tuples

_PARTS = 3  # of a measure: number of non-NULL values, high and low half
_HALF = 32


@keeps(BoundedSumsPlan)
class BoundedSumsOperator(Maintained):
    def __init__(
        self, scope: Scope, plan: BoundedSumsPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.plan: BoundedSumsPlan = plan
        self.keys = plan.keys
        self.below = [
            maintain(scope.scope("rows"), plan.rows, tables, pool),
            maintain(scope.scope("bounds"), plan.bounds, tables, pool),
        ]
        self.key_types = self.types[: plan.keys]
        self.tuples = Tuples(scope.scope("keys"), width(self.key_types))
        measures = len(self.types) - plan.keys - 1
        kind = _kind(plan.bounds.fields[plan.keys].type)
        self.ordered = [Ordered(scope.scope(f"ordered{i}"), kind) for i in range(1 + _PARTS * measures)]
        self.bounds = scope.array("bounds", np.int64, columns=self.ordered[0].width)
        self.bounded = scope.array("bounded", np.int64)  # number of bounds of a key: 0 or 1
        self.emitted = scope.array("told", np.int64, columns=len(self.ordered))  # the name in existing folders
        self.total = scope.array("total", np.int64)  # rows of the answer

    # Transactions ---------------------------------------------------------------------------------------------

    def finish(self) -> Rows:
        rows, bounds = (query.finish() for query in self.below)
        touched = [self._take_rows(rows)] if len(rows) else []
        if len(bounds):
            touched.append(self._take_bounds(bounds))
        if not touched:
            return joined([], self.width)
        delta = self._emit(np.unique(np.concatenate(touched)).astype(np.int32))
        self.steps.data[PLACED] += sum(ordered.visits() for ordered in self.ordered)
        return delta

    def _places(self, rows: Rows, types: Sequence[Type]) -> Slots:
        self.steps.data[FED] += len(rows)
        slots = self.tuples.add(leading(rows.lanes, types, self.keys))
        room = len(self.tuples.occupancy.data)
        for array in (self.bounds, self.bounded, self.emitted):
            array.grow(room)
        for ordered in self.ordered:
            ordered.reserve(room)
        return slots

    def _take_rows(self, rows: Rows) -> Slots:
        types = self.below[0].types
        slots, columns = self._places(rows, types), unpack(rows.lanes, types, self.pool)
        value = values(columns[self.keys], self.pool)
        self.ordered[0].add(slots, value, rows.weights)
        for i, measure in enumerate(columns[self.keys + 1 :]):
            known = rows.weights if measure.valid is None else rows.weights * measure.valid
            count, high, low = self.ordered[1 + _PARTS * i : 1 + _PARTS * (i + 1)]
            count.add(slots, value, known)
            high.add(slots, value, known * (measure.data >> _HALF))
            low.add(slots, value, known * (measure.data & ((1 << _HALF) - 1)))
        return slots

    def _take_bounds(self, bounds: Rows) -> Slots:
        types = self.below[1].types
        slots, columns = self._places(bounds, types), unpack(bounds.lanes, types, self.pool)
        np.add.at(self.bounded.data, slots, bounds.weights)
        come = bounds.weights > 0
        self.bounds.data[slots[come]] = values(columns[self.keys], self.pool)[come]
        return slots

    def _emit(self, touched: Slots) -> Rows:
        fresh = self._sums(touched)
        old = self.emitted.data[touched]
        changed = (fresh != old).any(axis=1)
        gone, come = changed & (old[:, 0] > 0), changed & (fresh[:, 0] > 0)
        parts = [
            Rows(pack(self._columns(touched[which], sums[which]), self.pool, int(which.sum())), weights[which])
            for which, sums, weights in (
                (gone, old, np.full(len(touched), -1)),
                (come, fresh, np.ones(len(touched), np.int64)),
            )
            if which.any()
        ]
        self.emitted.data[touched] = fresh
        self.total.data[0] += come.sum() - gone.sum()
        empty = (self.bounded.data[touched] == 0) & (self.ordered[0].roots.data[touched] == 0)
        self.tuples.remove(touched[empty])
        return consolidated(parts, self.width)

    def _sums(self, slots: Slots) -> Int64s:
        """The sum of each ordered multiset within the bound of each key."""
        bound, operator = self.bounds.data[slots], self.plan.operator
        out = np.empty((len(slots), len(self.ordered)), np.int64)
        for i, ordered in enumerate(self.ordered):
            below = ordered.count_before(slots, bound, inclusive=operator.is_upward != operator.is_strict)
            if not operator.is_upward:
                below = ordered.nodes.data[ordered.roots.data[slots], TOTAL] - below
            out[:, i] = below
        out[self.bounded.data[slots] == 0] = 0
        out[out[:, 0] == 0] = 0
        return out

    def _columns(self, slots: Slots, sums: Int64s) -> list[Column]:
        columns = unpack(self.tuples.lanes.data[slots], self.key_types, self.pool)
        columns.append(Column(BIGINT, np.ascontiguousarray(sums[:, 0])))
        for i, kind in enumerate(self.types[self.keys + 1 :]):
            known, high, low = (sums[:, 1 + _PARTS * i + part] for part in range(_PARTS))
            columns.append(_whole(kind, known > 0, high, low))
        return columns

    # Answers --------------------------------------------------------------------------------------------------

    def batches(self, rows: int) -> Iterator[list[Column]]:
        emitted = np.flatnonzero(self.emitted.data[: self.tuples.used, 0] > 0).astype(np.int32)
        for start in range(0, len(emitted), rows):
            part = emitted[start : start + rows]
            yield self._columns(part, self.emitted.data[part])

    def count(self) -> int:
        return int(self.total.data[0])

    # Loading and closing --------------------------------------------------------------------------------------

    def load(self, tables: Sequence[Table]) -> None:
        super().load(tables)
        for query, take in zip(self.below, (self._take_rows, self._take_bounds), strict=True):
            for rows in query.packed():
                take(rows)
        self._emit(self.tuples.slots())
        self.steps.data[PLACED] += sum(ordered.visits() for ordered in self.ordered)

    def string_marks(self, marked: Bools) -> None:
        super().string_marks(marked)
        mark_texts(self.tuples.lanes.data, self.tuples.slots(), self.key_types, 0, marked)


def _kind(bound: Type) -> int:
    return FRACTION if bound.is_fraction else WIDE if bound.lanes == 2 else INTEGER


def _whole(kind: Type, known: Bools, high: Int64s, low: Int64s) -> Column:
    """The sum given as two halves: high * 2**32 + low, where low is not negative."""
    lifted = high.astype(np.uint64) << np.uint64(_HALF)
    data = lifted + low.astype(np.uint64)
    upper = (high >> _HALF) + (data < lifted)
    whole = data.view(np.int64)
    if kind.lanes == 1 and ((whole >> 63) != upper).any():
        raise EvaluationError(f"SUM does not fit {kind}; cast its argument to a type with more digits")
    hi = wide.narrow(whole, upper) if kind.lanes == 2 else None
    return Column(kind, whole, None if known.all() else known, hi)
