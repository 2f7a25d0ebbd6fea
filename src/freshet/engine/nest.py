"""A select and its nested selects, if all of them are native: their steps are run together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import numpy as np

from freshet.engine import descriptions as at
from freshet.engine.answers import Owner
from freshet.engine.maintained import Maintained
from freshet.engine.native import Native
from freshet.engine.steps import describe_change, run_steps
from freshet.engine.table import RowChange, Table
from freshet.engine.undo import Undo
from freshet.state.arrays import Int64s
from freshet.state.rows import Rows
from freshet.state.tuples import Slots

_NO_SLOTS: Slots = np.empty(0, np.int32)


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
            for native in self.natives:
                native.raise_failure()


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
    if some readers are not native (`others`), one between two turns of those. `ends`: the native readers also finish.
    None of the readers may have to be told of nested changes."""

    def __init__(
        self, tables: Sequence[Table], nests: Sequence[NativeNest | NativeJoin], others: Sequence[Maintained],
        ends: bool,
    ) -> None:  # fmt: skip
        self._tables, self._others, self._ends = tables, others, ends
        self._nests = [n for n in nests if any(id(table) in n.enter for table in tables)]
        self._whole = [nest for nest in self._nests if isinstance(nest, NativeNest)]
        self._natives = [native for nest in self._nests for native in nest.natives]
        self._observable = [nest for nest in self._whole if len(nest.natives) > 1]
        self._nothing = [(np.empty((0, table.width), np.int64), np.empty(0, np.int64)) for table in tables]
        self._changes: list[Int64s] = []
        self._dropped: list[int] = []  # the steps that remove rows from the tables, and those that add them
        self._stored: list[int] = []
        parts: list[Int64s] = []
        for table in tables:
            change = np.zeros(at.CHANGE_WIDTH, np.int64)
            reader = next(n for n in self._natives if id(table) in n.entries)
            change[at.CHANGE_OF] = reader.described(table).ctypes.data
            self._changes.append(change)
            gone = change.ctypes.data + 8 * at.GONE_AT
            parts += [taking(nest.leave[id(table)], gone) for nest in self._nests if id(table) in nest.leave]
            self._dropped.append(sum(map(len, parts)))
            parts.append(np.array([[at.DROP, change.ctypes.data, 0, 0]], np.int64))
        for table, change in zip(tables, self._changes, strict=True):
            self._stored.append(sum(map(len, parts)))
            parts.append(np.array([[at.STORE, change.ctypes.data, 0, 0]], np.int64))
            come = change.ctypes.data + 8 * at.COME_AT
            parts += [taking(nest.enter[id(table)], come) for nest in self._nests if id(table) in nest.enter]
        self._steps: Int64s = np.concatenate([*parts, *(nest.finish for nest in self._whole if ends)])

    def run(self, changes: Sequence[RowChange], undo: list[Undo]) -> bool:
        """Applies changes of the tables, and adds to `undo` what was done to them, even if it fails. False if these
        changes cannot be applied in this way; nothing has been done then."""
        slots, kept = [], []
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
            new = np.empty(come, np.int32) if come else _NO_SLOTS
            rows, weights = (np.empty((gone, table.width), np.int64), np.empty(gone, np.int64)) if gone else nothing
            if not describe_change(described, change.removed, change.added, change.weights, new, rows, weights):
                return False
            slots.append(new)
            kept.append((rows, weights))
        for nest in self._whole:
            nest.changed = not self._ends
        done = 0
        try:
            if self._others:
                for i, change in enumerate(changes):
                    done = self._steps_to(self._dropped[i], done)
                    for operator in self._others if len(change.removed) else ():
                        operator.remove(self._tables[i], change.removed)
                for i, new in enumerate(slots):
                    done = self._steps_to(self._stored[i] + 1, done)
                    for operator in self._others if len(new) else ():
                        operator.insert(self._tables[i], new)
            done = self._steps_to(len(self._steps), done)
        except _StepError as e:
            done = e.step
            for native in self._natives:
                native.raise_failure()
            raise
        finally:
            for i, (table, change) in enumerate(zip(self._tables, changes, strict=True)):
                if len(change.removed) and self._dropped[i] < done:
                    rows, weights = kept[i]
                    undo.append(Undo(table, rows, None if table.weights is None else weights, change.removed))
            for i, table in enumerate(self._tables):
                if len(slots[i]) and self._stored[i] < done:
                    undo.append(Undo(table, None, None, slots[i]))
        return True

    def _steps_to(self, end: int, done: int) -> int:
        if end > done:
            failed = run_steps(self._steps if end - done == len(self._steps) else self._steps[done:end])
            if failed >= 0:
                raise _StepError(done + failed)
        return end


def end_together(nests: Sequence[NativeNest]) -> None:
    """Ends a transaction for those that it has changed: their deltas are ready."""
    changed = [nest for nest in nests if nest.changed and not nest.is_observed]
    if not changed:
        return
    natives = [native for nest in changed for native in nest.natives]
    for native in natives:
        native.ready()
    for nest in changed:
        nest.changed = False
    if run_steps(np.concatenate([nest.finish for nest in changed])) >= 0:
        for native in natives:
            native.raise_failure()


class _StepError(Exception):
    """A native step has failed; its owner knows why."""

    def __init__(self, step: int) -> None:
        self.step = step
