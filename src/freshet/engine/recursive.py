"""A recursive query kept fresh: its rows with their iterations, and one step kept over the rows of all iterations.

Law: the rows of iteration 0 are the anchor's, and those of iteration i + 1 are what the step makes of the rows of
iteration i alone. So when iterations change in ascending order, each is changed once: all that can change iteration i
has been fed to the step before. A change of a table changes what the step makes of the stored rows, in all iterations
at once; these changes wait until their iteration is reached.

With UNION ALL a row stands in an iteration as often as it is derived there. With UNION it stands once, in the first
iteration that derives it, and the step reads it there. `derived` counts how often each iteration derives each row. A
row that its iteration derives no more is *adrift*: each later iteration, once its own changes are known, takes it if it
derives it, and if none does it leaves the answer. A row that an earlier iteration comes to derive moves there. That is
right on cycles as well: what rows derive from each other counts only for later iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from freshet.budget import look
from freshet.engine.maintained import LOAD, Maintained, Outlet, keeps, maintain
from freshet.engine.table import Table
from freshet.engine.work import DISTINCT, FED
from freshet.errors import EvaluationError, StateError
from freshet.plans.model import RecursivePlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import leading, unpack, value_lanes
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import HeldRows, Rows, added_up, consolidated, joined, no_rows, repeated
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots, Tuples

#: Rows that a recursion may have, as in Spark.
MOST_ROWS = 1_000_000


class _EndlessError(EvaluationError):
    pass


class Numbered:
    """How rows are laid out with the number of their iteration as a last column, and without it."""

    def __init__(self, plan: RecursivePlan) -> None:
        self.types = [f.type for f in plan.rows.fields]
        self.lane = value_lanes(self.types) - 1
        self.columns = len(self.types) - 1

    def bare(self, lanes: Int64s) -> Int64s:
        return leading(lanes, self.types, self.columns)

    def at(self, bare: Int64s, iteration: int | Int64s, width: int) -> Int64s:
        lanes = np.zeros((len(bare), width), np.int64)
        lanes[:, : self.lane] = bare[:, : self.lane]
        lanes[:, self.lane] = iteration
        lanes[:, self.lane + 1 : self.lane + 1 + bare.shape[1] - self.lane] = bare[:, self.lane :]
        return lanes


class Waiting:
    """Changes of iterations that have not been reached."""

    def __init__(self, lane: int) -> None:
        self._lane = lane
        self._parts: dict[int, list[Rows]] = {}

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        iterations = rows.lanes[:, self._lane]
        order = np.argsort(iterations, kind="stable")
        found, starts = np.unique(iterations[order], return_index=True)
        for i, part in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            self._parts.setdefault(i, []).append(Rows(rows.lanes[part], rows.weights[part]))

    def first(self) -> int | None:
        return min(self._parts, default=None)

    def take(self, iteration: int) -> list[Rows]:
        return self._parts.pop(iteration, [])


@keeps(RecursivePlan)
class RecursiveOperator(Maintained):
    def __init__(
        self, scope: Scope, plan: RecursivePlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.plan: RecursivePlan = plan
        self.tables, self.numbered = dict(tables), Numbered(plan)  # its state is its own
        self._make()

    def _make(self) -> None:
        scope, plan, pool = self.scope.scope("all"), self.plan, self.pool
        self.rows = Table(scope.scope("rows"), plan.rows.fields, (), pool)
        self.anchor = maintain(scope.scope("anchor"), plan.anchor, self.tables, pool)
        tables = {**self.tables, plan.rows.name.lower(): self.rows}
        self.step = maintain(scope.scope("step"), plan.step, tables, pool)
        self.below = [self.anchor, self.step]
        self.sizes = scope.array("sizes", np.int64)  # rows of each iteration
        self.begun = scope.array("begun", np.int8)  # whether all rows of the anchor have been taken in
        self.failed = False
        self.first = First(scope.scope("first"), self.numbered, self.rows.width, self.width) if plan.distinct else None

    # Transactions ---------------------------------------------------------------------------------------------

    @property
    def relays(self) -> bool:
        return False

    def remove(self, table: Table, slots: Slots) -> None:
        if not self.failed:
            with self._failing():
                super().remove(table, slots)

    def insert(self, table: Table, slots: Slots) -> None:
        if not self.failed:
            with self._failing():
                super().insert(table, slots)

    def reweigh(self, table: Table, slots: Slots, before: Int64s) -> None:
        if not self.failed:
            with self._failing():
                super().reweigh(table, slots, before)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """The step may have no value on a row that this transaction adds to an old row of the recursion and takes away
        with that row. So it has failed only if the recursion as it is in the end cannot be made."""
        try:
            yield
        except _EndlessError:
            raise
        except EvaluationError:
            self.failed = True

    def finish(self) -> Rows:
        changes = HeldRows()
        if not self.failed:
            with self._failing():
                begins = self.anchor.finish()
                waiting = self._waiting(self._stepped(self.step.finish()), begins)
                for change in self._run(waiting):
                    changes.append(Rows(self.numbered.bare(change.lanes), change.weights.copy()))
        if self.failed:
            return self._made_again(changes)
        return consolidated(changes, self.width) if changes else no_rows(self.width)

    def _made_again(self, changes: Sequence[Rows]) -> Rows:
        """The recursion is made of the tables' rows. `changes`: those made before."""
        before = [*changes, *(Rows(rows.lanes, -rows.weights) for rows in self.packed())]
        self.close()
        self.scope.scope("all").drop()
        self._make()
        self.load([*self.tables.values()])
        return consolidated([*before, *self.packed()], self.width)

    def _waiting(self, stepped: Rows, begins: Rows) -> Waiting:
        """What changes in the rows of all iterations and in those of the anchor. What is constant of an anchor is in no
        change: it comes with the first one."""
        waiting = Waiting(self.numbered.lane)
        waiting.add(stepped)
        for rows in [begins] if self.begun.data[0] else self.anchor.packed():
            waiting.add(Rows(self.numbered.at(rows.lanes, 0, self.rows.width), rows.weights))
        self.begun.data[0] = 1
        return waiting

    def _stepped(self, rows: Rows) -> Rows:
        """What a step makes belongs to the next iteration."""
        if len(rows):
            rows = Rows(rows.lanes.copy(), rows.weights)
            rows.lanes[:, self.numbered.lane] += 1
        return rows

    def _run(self, waiting: Waiting) -> Iterator[Rows]:
        """Changes the iterations, each once; what changes in the rows with their iterations."""
        adrift = no_rows(self.width).lanes
        reached = 0
        while True:
            look()
            iteration = waiting.first()
            if self.first is not None and len(adrift):
                iteration = reached if iteration is None else min(iteration, reached)
            if iteration is None:
                return
            change = consolidated(waiting.take(iteration), self.rows.width)
            if self.first is not None:
                self.steps.data[DISTINCT] += len(change) + len(adrift)
                change, adrift = self.first.changed(iteration, change, adrift)
            reached = iteration + 1
            if len(change):
                self._count(change)
                self._check(iteration)
                yield change
                waiting.add(self._feed(change))

    def _count(self, change: Rows) -> None:
        iterations = change.lanes[:, self.numbered.lane]
        self.sizes.grow(int(iterations.max()) + 1)
        np.add.at(self.sizes.data, iterations, change.weights)

    def _check(self, iteration: int) -> None:
        """Up to this iteration all is known."""
        name, levels = self.plan.name, self.plan.levels
        if iteration >= levels and self.sizes.data[iteration]:
            what = f"WITH RECURSIVE {name} still has rows after {levels:,} iterations"
            raise _EndlessError(f"{what}; end it with a condition in its step, or write MAX RECURSION LEVEL")
        if added_up(self.sizes.data[: iteration + 1]) > MOST_ROWS:
            what = f"WITH RECURSIVE {name} has more than {MOST_ROWS:,} rows"
            raise _EndlessError(f"{what}; end it with a condition in its step")

    def _feed(self, change: Rows) -> Rows:
        """Changes the stored rows, and what the step makes of them."""
        self.steps.data[FED] += len(change)
        rows, step = self.rows, self.step
        settled = rows.resolve(np.ascontiguousarray(change.lanes), change.weights.copy())
        if len(settled.removed):
            step.remove(rows, settled.removed)
            rows.remove(settled)
        if len(settled.changed):
            step.reweigh(rows, settled.changed, rows.reweigh(settled))
        if len(settled.added):
            step.insert(rows, rows.add(settled))
        return self._stepped(step.finish())

    # Answers --------------------------------------------------------------------------------------------------

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for part in self._parts(rows):
            if (part.weights == 1).all():
                yield unpack(part.lanes, self.types, self.pool)
                continue
            for copies in repeated(part.weights, rows):
                yield unpack(part.lanes[copies], self.types, self.pool)

    def packed(self) -> Iterator[Rows]:
        yield from self._parts(LOAD)

    def _parts(self, rows: int) -> Iterator[Rows]:
        slots, weights = self.rows.tuples.slots(), self.rows.weights
        assert weights is not None
        for start in range(0, len(slots), rows):
            part = slots[start : start + rows]
            yield Rows(self.numbered.bare(self.rows.tuples.lanes.data[part]), weights.data[part])

    def count(self) -> int:
        return added_up(self.sizes.data)

    # Making and unmaking --------------------------------------------------------------------------------------

    def load(self, tables: Sequence[Table]) -> None:
        super().load(tables)
        nothing = no_rows(self.rows.width)
        for _ in self._run(self._waiting(nothing, nothing)):
            pass

    def string_marks(self, marked: Bools) -> None:
        super().string_marks(marked)
        self.rows.string_marks(marked)  # every row that an iteration derives stands in one


class First:
    """The first iteration that derives each row: `derived` has the rows with each iteration that derives them and
    `counts` how often it does; `found` has the rows and `level` the iteration that each stands in."""

    def __init__(self, scope: Scope, numbered: Numbered, wide: int, width: int) -> None:
        self.numbered, self.wide, self.width = numbered, wide, width
        self.derived, self.counts = Tuples(scope.scope("derived"), wide), scope.array("counts", np.int64)
        self.found, self.level = Tuples(scope.scope("found"), width), scope.array("level", np.int64)
        self.sizes = scope.array("sizes", np.int64)  # rows that each iteration derives

    def changed(self, iteration: int, change: Rows, adrift: Int64s) -> tuple[Rows, Int64s]:
        """What an iteration derives changes: the change of the rows that stand in iterations, and those that are adrift
        after it, of which `adrift` were before."""
        self._derive(iteration, change)
        some = np.concatenate([self.numbered.bare(change.lanes), adrift])
        rows = consolidated([Rows(some, np.ones(len(some), np.int64))], self.width).lanes
        slots = self.found.find(rows)
        level = np.where(slots < 0, -1, self.level.data[slots])
        here = self.derived.find(self.numbered.at(rows, iteration, self.wide)) >= 0
        comes = here & ((level < 0) | (level > iteration))
        goes = ~here & (level == iteration)
        moved = comes & (level >= 0)
        self.level.data[slots[moved]] = iteration
        self.found.remove(slots[goes])
        self._place(rows[comes & ~moved], iteration)
        after = self.sizes.data[iteration + 1 :].any()
        adrift = rows[~here & ((level < 0) | goes)] if after else rows[:0]
        parts = [
            self._at(rows[comes], iteration, 1),
            self._at(rows[goes], iteration, -1),
            self._at(rows[moved], level[moved], -1),
        ]
        return joined(parts, self.wide), np.ascontiguousarray(adrift)

    def _derive(self, iteration: int, change: Rows) -> None:
        if not len(change):
            return
        slots, fresh = self.derived.add_fresh(change.lanes)
        self.counts.grow(len(self.derived.occupancy.data))
        self.counts.data[slots[fresh]] = 0
        counts = self.counts.data[slots] + change.weights
        if (counts < 0).any():
            raise StateError("a recursion has a negative count of a row; please report this")
        self.counts.data[slots] = counts
        gone = slots[counts == 0]
        self.derived.remove(gone)
        self.sizes.grow(iteration + 2)
        self.sizes.data[iteration] += int(fresh.sum()) - len(gone)

    def _place(self, rows: Int64s, iteration: int) -> None:
        slots = self.found.add(np.ascontiguousarray(rows))
        self.level.grow(len(self.found.occupancy.data))
        self.level.data[slots] = iteration

    def _at(self, rows: Int64s, iteration: int | Int64s, weight: int) -> Rows:
        return Rows(self.numbered.at(rows, iteration, self.wide), np.full(len(rows), weight, np.int64))
