"""Rows whose output depends on the time: each changes at its moments (`Timed`) as the clock passes them.

Law: the output of a row is a function of the row and the time, and changes only at the row's moments. So only rows
with a future moment are stored, ordered by the next one. A row that will no longer change is not stored; when it is
deleted later, its output is computed from the row itself. When the clock advances, the rows that are due in between are
taken out, and the change of their output is emitted. In a transaction rows are deleted at the old time, then the clock
advances, then rows are inserted at the new time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from freshet.engine.maintained import LOAD, Maintained, Outlet, keeps, maintain
from freshet.engine.table import Table
from freshet.engine.work import FED, PLACED
from freshet.errors import StateError
from freshet.plans.model import TimedPlan
from freshet.scalar.clock import NEVER, Moment
from freshet.scalar.column import Column
from freshet.scalar.lanes import leading, pack, unpack
from freshet.scalar.types import BOOLEAN
from freshet.state.agenda import Agenda
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import Rows, consolidated, joined, repeated
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots


@keeps(TimedPlan)
class TimedOperator(Maintained):
    def __init__(
        self, scope: Scope, plan: TimedPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.plan: TimedPlan = plan
        self.source = maintain(scope.scope("rows"), plan.source, tables, pool)
        self.clock = maintain(scope.scope("clock"), plan.clock, tables, pool)
        self.below = [self.source, self.clock]
        self.shown = len(plan.fields) - len(plan.flags)
        self.kept = Table(scope.scope("kept"), plan.source.fields, (), pool)  # rows with a change to come
        self.agenda = Agenda(scope.scope("agenda"))
        self.time = scope.array("time", np.int64)  # since it begins
        self.total = scope.array("total", np.int64)  # rows of the answer

    @property
    def now(self) -> int:
        return self.plan.begins + int(self.time.data[0])

    # Transactions ---------------------------------------------------------------------------------------------

    def finish(self) -> Rows:
        rows, clock = self.source.finish(), self.clock.finish()
        parts = []
        if len(rows):
            parts.append(self._forget(Rows(rows.lanes[rows.weights < 0], rows.weights[rows.weights < 0])))
        if len(clock):
            parts += self._move_to(int(clock.lanes[clock.weights > 0, 0][0]))
        if len(rows):
            parts.append(self._keep(Rows(rows.lanes[rows.weights > 0], rows.weights[rows.weights > 0])))
        if not parts:
            return joined([], self.width)
        self.steps.data[PLACED] += self.agenda.visits()
        delta = consolidated(parts, self.width)
        self.total.data[0] += delta.weights.sum()
        return delta

    def _forget(self, rows: Rows) -> Rows:
        """Deletes rows and returns their former output."""
        after = self._next(rows.lanes) < NEVER
        self._change(rows.lanes[after], rows.weights[after])
        return self._seen(rows)

    def _keep(self, rows: Rows) -> Rows:
        """Inserts rows and returns their output."""
        after = self._next(rows.lanes)
        later = after < NEVER
        self._change(rows.lanes[later], rows.weights[later])
        return self._seen(rows)

    def _change(self, lanes: Int64s, weights: Int64s) -> None:
        """Adds or removes rows that have a future moment."""
        self.steps.data[FED] += len(weights)
        lanes = np.ascontiguousarray(lanes)
        change = self.kept.resolve(lanes, weights.copy())
        self.agenda.take(change.removed)
        self.kept.remove(change)
        if len(change.changed):
            self.kept.reweigh(change)
        slots = self.kept.add(change)
        self.agenda.put(slots, self._next(change.added))

    def _move_to(self, now: int) -> list[Rows]:
        """The rows that change when the clock advances: their output before and after."""
        if now < self.now:
            raise StateError("the clock of a view was moved back; please report this")
        due = self.agenda.due(now)
        weights = self._weights(due)
        rows = np.ascontiguousarray(self.kept.tuples.lanes.data[due])
        self.steps.data[FED] += len(due)
        before = self._seen(Rows(rows, -weights))
        self.time.data[0] = now - self.plan.begins
        after, times = self._seen(Rows(rows, weights)), self._next(rows)
        over = times == NEVER
        self.agenda.put(due[~over], times[~over])
        self._drop(due[over])
        return [before, after]

    def _drop(self, slots: Slots) -> None:
        self.kept.tuples.remove(slots)
        weights = self.kept.weights
        assert weights is not None
        weights.data[slots] = 0

    def _weights(self, slots: Slots) -> Int64s:
        assert self.kept.weights is not None
        weights: Int64s = self.kept.weights.data[slots]
        return weights

    # Rows and their moments -----------------------------------------------------------------------------------

    def _moments(self, columns: Sequence[Column], moments: Sequence[Moment]) -> list[tuple[Int64s, Bools | None]]:
        moments_of_rows = []
        for m in moments:
            column = columns[m.column]
            moments_of_rows.append((m.of(column.data, column.type), column.valid))
        return moments_of_rows

    def _next(self, lanes: Int64s) -> Int64s:
        """The next moment of each row; NEVER if there is none."""
        columns, plan, now = unpack(lanes, self.source.types, self.pool), self.plan, self.now
        since, until = self._moments(columns, plan.since), self._moments(columns, plan.until)
        after = np.full(len(lanes), NEVER)
        for at, valid in (*since, *until, *self._moments(columns, plan.flags)):
            to_come = at > now if valid is None else (at > now) & valid
            after = np.where(to_come, np.minimum(after, at), after)
        for at, valid in until:
            after[at <= now] = NEVER
            if valid is not None:
                after[~valid] = NEVER
        for _, valid in since:
            if valid is not None:
                after[~valid] = NEVER
        return after

    def _seen(self, rows: Rows) -> Rows:
        """The output of rows at the current time."""
        columns, plan, now = unpack(rows.lanes, self.source.types, self.pool), self.plan, self.now
        there = np.ones(len(rows), np.bool_)
        for moments, passed in ((plan.since, True), (plan.until, False)):
            for at, valid in self._moments(columns, moments):
                there &= (at <= now) == passed
                if valid is not None:
                    there &= valid
        lanes, weights = rows.lanes[there], rows.weights[there]
        if not plan.flags:
            return Rows(leading(lanes, self.source.types, self.shown), weights)
        shown = [c.take(there) for c in columns]
        flags = [Column(BOOLEAN, (at <= now).astype(np.int64), valid) for at, valid in self._moments(shown, plan.flags)]
        return Rows(pack([*shown[: self.shown], *flags], self.pool, len(weights)), weights)

    # Answers --------------------------------------------------------------------------------------------------

    def packed(self) -> Iterator[Rows]:
        """Rows that are output until some moment are all stored."""
        if not self.plan.until:
            yield from (self._seen(rows) for rows in self.source.packed())
            return
        slots = self.kept.tuples.slots()
        for start in range(0, len(slots), LOAD):
            part = slots[start : start + LOAD]
            yield self._seen(Rows(self.kept.tuples.lanes.data[part], self._weights(part)))

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for part in self.packed():
            for places in repeated(part.weights, rows):
                yield unpack(part.lanes[places], self.types, self.pool)

    def count(self) -> int:
        return int(self.total.data[0])

    # Loading and closing --------------------------------------------------------------------------------------

    def load(self, tables: Sequence[Table]) -> None:
        super().load(tables)
        for rows in self.clock.packed():
            self.time.data[0] = rows.lanes[0, 0] - self.plan.begins
        for rows in self.source.packed():
            self.total.data[0] += self._keep(rows).weights.sum()
        self.steps.data[PLACED] += self.agenda.visits()

    def string_marks(self, marked: Bools) -> None:
        super().string_marks(marked)
        self.kept.string_marks(marked)
