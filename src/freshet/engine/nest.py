"""A select and its nested selects, if all of them are native: their steps are run together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NoReturn, cast

import numpy as np

from freshet.engine import descriptions as at
from freshet.engine.answers import Owner
from freshet.engine.crew import Crew
from freshet.engine.maintained import Maintained
from freshet.engine.native import Native
from freshet.engine.steps import describe_change, run_steps
from freshet.engine.table import RowChange, Table
from freshet.engine.undo import Undo
from freshet.state.arrays import Int64s
from freshet.state.rows import Rows
from freshet.state.tuples import Slots

_NO_SLOTS: Slots = np.empty(0, np.int32)
_NO_STEPS: Int64s = np.empty((0, 4), np.int64)


class NativeNest:
    """Runs the steps of a select and its nested selects: one call for each table that changes, and one at the end.
    `natives`: innermost first."""

    def __init__(self, owner: Owner) -> None:
        native: Native = owner.native
        self.natives: list[Native] = []
        enter, leave, finish = defaultdict[int, list[Int64s]](list), defaultdict[int, list[Int64s]](list), []
        fed = {id(table) for _, table in owner.inputs}
        for child, table in owner.inputs:
            below = child.nest
            assert isinstance(below, NativeNest)
            self.natives += below.natives
            for steps, more in ((enter, below.enter), (leave, below.leave)):
                for key, rows in more.items():
                    steps[key].append(rows)
            finish += [below.finish, native.taking(table, child.native.select)]
        self.natives.append(native)
        for steps, more in ((enter, native.enter), (leave, native.leave)):
            for key, rows in more.items():
                if key not in fed:
                    steps[key].append(rows)
        self.finish: Int64s = np.concatenate([*finish, native.finish])
        self._list = np.zeros(at.LIST_WIDTH, np.int64)  # of the slots that enter or leave
        self.enter: dict[int, Int64s] = {
            key: taking(np.concatenate(rows), self._list.ctypes.data) for key, rows in enter.items()
        }
        self.leave: dict[int, Int64s] = {
            key: taking(np.concatenate(rows), self._list.ctypes.data) for key, rows in leave.items()
        }
        self._last = native
        self.changed = True  # since the last call of `end`

    @classmethod
    def of(cls, owner: Owner) -> NativeNest | None:
        if owner.native is None or not owner.native.finishes:
            return None
        return cls(owner) if all(getattr(child, "nest", None) is not None for child, _ in owner.inputs) else None

    @property
    def is_observed(self) -> bool:
        """Whether a listener needs the changes of nested queries."""
        if len(self.natives) > 1:
            for native in self.natives:
                if native.owner.listener is not None:
                    return True
        return False

    def insert(self, table: Table, slots: Slots) -> None:
        steps = self.enter.get(id(table))
        if steps is not None and len(slots):
            self.changed = True
            self._run(steps, slots)

    def remove(self, table: Table, slots: Slots) -> None:
        steps = self.leave.get(id(table))
        if steps is not None and len(slots):
            self.changed = True
            self._run(steps, slots)

    def end(self) -> Rows:
        """Ends a transaction and returns the delta."""
        if self.changed:
            self.changed = False
            self._run(self.finish, _NO_SLOTS)
        return self._last.pending.take()

    def _run(self, steps: Int64s, slots: Slots) -> None:
        for native in self.natives:
            native.ready()
        self._list[at.LIST_AT], self._list[at.LIST_LENGTH] = slots.ctypes.data, len(slots)
        if run_steps(steps) >= 0:
            raise_failure(self.natives)


def taking(steps: Int64s, slots: int) -> Int64s:
    """The same steps for the list of slots at an address."""
    copy = steps.copy()
    copy[:, at.SECOND] = slots
    return copy


class NativeJoin:
    """The native steps of a select that Python finishes."""

    is_observed = False

    def __init__(self, owner: Owner) -> None:
        native: Native = owner.native
        self.natives = [native]
        fed = {id(table) for _, table in owner.inputs}
        self.enter = {key: steps for key, steps in native.enter.items() if key not in fed}
        self.leave = {key: steps for key, steps in native.leave.items() if key not in fed}


def nests_of(operator: Maintained) -> list[NativeNest | NativeJoin] | None:
    """The native steps that apply changes of tables; None if Python applies some of them."""
    nest = getattr(operator, "nest", None)
    if isinstance(nest, NativeNest):
        return [nest]
    found: list[NativeNest | NativeJoin] = []
    if getattr(operator, "native", None) is not None:
        found.append(NativeJoin(cast(Owner, operator)))
    elif not operator.relays:
        return None
    for query in operator.below:
        nests = nests_of(query)
        if nests is None:
            return None
        found += nests
    return found


class NativeTransaction:
    """Applies changes of certain tables to all who read them, in the order of Core.apply: rows leave the readers, then
    their table; rows are added to their table, then to the readers. The native readers of all tables take one call, or
    if some readers are not native (`others`), one between two turns of those. Large changes are taken by several
    threads: first all rows leave, then all tables change, then all rows enter. `ends`: the native readers also finish.
    None of the readers may have to be told of nested changes."""

    def __init__(
        self, tables: Sequence[Table], nests: Sequence[NativeNest | NativeJoin], others: Sequence[Maintained],
        ends: bool, crew: Crew,
    ) -> None:  # fmt: skip
        self._tables, self._others, self._ends, self._crew = tables, others, ends, crew
        self._nests = [n for n in nests if any(id(table) in n.enter for table in tables)]
        self._whole = [nest for nest in self._nests if isinstance(nest, NativeNest)]
        self._natives = [native for nest in self._nests for native in nest.natives]
        self._observable = [nest for nest in self._whole if len(nest.natives) > 1]
        self._nothing = [(np.empty((0, table.width), np.int64), np.empty(0, np.int64)) for table in tables]
        self._changes = [self._described(table) for table in tables]
        self._dropped: list[int] = []  # the steps that remove rows from the tables, and those that add them
        self._stored: list[int] = []
        parts: list[Int64s] = []
        for i, change in enumerate(self._changes):
            parts += [self._leaving(nest, i) for nest in self._nests]
            self._dropped.append(sum(map(len, parts)))
            parts.append(_on_table(at.DROP, change))
        for i, change in enumerate(self._changes):
            self._stored.append(sum(map(len, parts)))
            parts.append(_on_table(at.STORE, change))
            parts += [self._entering(nest, i) for nest in self._nests]
        self._steps: Int64s = np.concatenate([*parts, *(nest.finish for nest in self._whole if ends)])
        self._done = 0  # steps of the current transaction that have been run
        self._apart = _Apart(self) if crew.threads > 1 else None

    def _described(self, table: Table) -> Int64s:
        change = np.zeros(at.CHANGE_WIDTH, np.int64)
        reader = next(n for n in self._natives if id(table) in n.entries)
        change[at.CHANGE_OF] = reader.described(table).ctypes.data
        return change

    def _leaving(self, nest: NativeNest | NativeJoin, table: int) -> Int64s:
        steps = nest.leave.get(id(self._tables[table]), _NO_STEPS)
        return taking(steps, self._changes[table].ctypes.data + 8 * at.GONE_AT)

    def _entering(self, nest: NativeNest | NativeJoin, table: int) -> Int64s:
        steps = nest.enter.get(id(self._tables[table]), _NO_STEPS)
        return taking(steps, self._changes[table].ctypes.data + 8 * at.COME_AT)

    def run(self, changes: Sequence[RowChange], undo: list[Undo]) -> bool:
        """Applies changes of the tables, and adds to `undo` what was done to them, even if it fails. False if these
        changes cannot be applied in this way; nothing has been done then."""
        slots, kept, rows = [], [], 0
        for nest in self._observable:
            if nest.is_observed:
                return False
        for table, change in zip(self._tables, changes, strict=True):
            if len(change.changed):
                return False
            table.reserve(len(change.added), len(change.removed))
        for native in self._natives:
            native.ready()
        for table, change, described, nothing in zip(self._tables, changes, self._changes, self._nothing, strict=True):
            gone, come = len(change.removed), len(change.added)
            rows += gone + come
            new = np.empty(come, np.int32) if come else _NO_SLOTS
            old, weights = (np.empty((gone, table.width), np.int64), np.empty(gone, np.int64)) if gone else nothing
            if not describe_change(described, change.removed, change.added, change.weights, new, old, weights):
                return False
            slots.append(new)
            kept.append((old, weights))
        for nest in self._whole:
            nest.changed = not self._ends
        self._done = 0
        try:
            if self._apart is not None and self._crew.is_worthwhile(rows, len(self._whole)):
                self._side_by_side(self._apart, changes, slots)
            else:
                self._one_after_the_other(changes, slots)
        finally:
            for i, (table, change) in enumerate(zip(self._tables, changes, strict=True)):
                if len(change.removed) and self._dropped[i] < self._done:
                    old, weights = kept[i]
                    undo.append(Undo(table, old, None if table.weights is None else weights, change.removed))
            for i, table in enumerate(self._tables):
                if len(slots[i]) and self._stored[i] < self._done:
                    undo.append(Undo(table, None, None, slots[i]))
        return True

    def _one_after_the_other(self, changes: Sequence[RowChange], slots: Sequence[Slots]) -> None:
        if self._others:
            for i, change in enumerate(changes):
                self._steps_to(self._dropped[i])
                for operator in self._others if len(change.removed) else ():
                    operator.remove(self._tables[i], change.removed)
            for i, new in enumerate(slots):
                self._steps_to(self._stored[i] + 1)
                for operator in self._others if len(new) else ():
                    operator.insert(self._tables[i], new)
        self._steps_to(len(self._steps))

    def _steps_to(self, end: int) -> None:
        if end > self._done:
            failed = run_steps(self._steps if end - self._done == len(self._steps) else self._steps[self._done : end])
            if failed >= 0:
                self._done += failed
                raise_failure(self._natives)
            self._done = end

    def _side_by_side(self, apart: _Apart, changes: Sequence[RowChange], slots: Sequence[Slots]) -> None:
        """What only Python can finish runs in this thread, between the turns of the others."""
        if not self._crew.run(apart.leaving) or run_steps(apart.leaving_here) >= 0:
            raise_failure(self._natives)
        for table, change in zip(self._tables, changes, strict=True):
            for operator in self._others if len(change.removed) else ():
                operator.remove(table, change.removed)
        run_steps(apart.between)
        self._done = len(self._steps)
        if not self._crew.run(apart.entering) or run_steps(apart.entering_here) >= 0:
            raise_failure(self._natives)
        for table, new in zip(self._tables, slots, strict=True):
            for operator in self._others if len(new) else ():
                operator.insert(table, new)


class _Apart:
    """The steps of a transaction for several threads: a task for each reader that is native as a whole, and the steps
    of this thread (`..._here`)."""

    def __init__(self, of: NativeTransaction) -> None:
        here = [nest for nest in of._nests if not isinstance(nest, NativeNest)]
        tables = range(len(of._tables))

        def leaving(nest: NativeNest | NativeJoin) -> list[Int64s]:
            return [of._leaving(nest, i) for i in tables]

        def entering(nest: NativeNest | NativeJoin) -> list[Int64s]:
            return [of._entering(nest, i) for i in tables]

        self.leaving = [np.concatenate(leaving(nest)) for nest in of._whole]
        self.entering = [np.concatenate([*entering(nest), *((nest.finish,) if of._ends else ())]) for nest in of._whole]
        self.leaving_here = np.concatenate([_NO_STEPS, *(steps for nest in here for steps in leaving(nest))])
        self.entering_here = np.concatenate([_NO_STEPS, *(steps for nest in here for steps in entering(nest))])
        self.between = np.concatenate([_on_table(what, c) for what in (at.DROP, at.STORE) for c in of._changes])


def _on_table(what: int, change: Int64s) -> Int64s:
    return np.array([[what, change.ctypes.data, 0, 0]], np.int64)


def raise_failure(natives: Sequence[Native]) -> NoReturn:
    """Called after a step has failed: its owner knows why."""
    for native in natives:
        native.raise_failure()
    raise AssertionError("a step failed without a reason")


def end_together(nests: Sequence[NativeNest], crew: Crew, rows: int) -> None:
    """Ends a transaction of that many rows for those that it has changed: their deltas are ready."""
    changed = [nest for nest in nests if nest.changed and not nest.is_observed]
    if not changed:
        return
    natives = [native for nest in changed for native in nest.natives]
    for native in natives:
        native.ready()
    for nest in changed:
        nest.changed = False
    if crew.is_worthwhile(rows, len(changed)):
        succeeded = crew.run([nest.finish for nest in changed])
    else:
        succeeded = run_steps(np.concatenate([nest.finish for nest in changed])) < 0
    if not succeeded:
        raise_failure(natives)
