"""A select and its nested selects, if all of them are native: their steps are run together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from freshet.engine import descriptions as at
from freshet.engine.answers import Owner
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
            taken = native.step(at.TAKE, native.entries[id(table)], child.native.select)
            finish += [below.finish, taken]
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


class NativeTransaction:
    """The steps of transactions that change certain tables, all of whose readers are native: one call removes rows from
    the readers and then from their table, adds rows to their table and then to the readers, and ends the transaction,
    in the order of Core.apply."""

    def __init__(self, tables: Sequence[Table], nests: Sequence[NativeNest]) -> None:
        self._tables, self._nests = tables, nests
        self._natives = [native for nest in nests for native in nest.natives]
        self._observable = [nest for nest in nests if len(nest.natives) > 1]
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
            parts += [taking(nest.leave[id(table)], gone) for nest in nests if id(table) in nest.leave]
            self._dropped.append(sum(map(len, parts)))
            parts.append(np.array([[at.DROP, change.ctypes.data, 0, 0]], np.int64))
        for table, change in zip(tables, self._changes, strict=True):
            self._stored.append(sum(map(len, parts)))
            parts.append(np.array([[at.STORE, change.ctypes.data, 0, 0]], np.int64))
            come = change.ctypes.data + 8 * at.COME_AT
            parts += [taking(nest.enter[id(table)], come) for nest in nests if id(table) in nest.enter]
        self._steps: Int64s = np.concatenate([*parts, *(nest.finish for nest in nests)])

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
        failed = run_steps(self._steps)
        for i, (table, change) in enumerate(zip(self._tables, changes, strict=True)):
            if len(change.removed) and (failed < 0 or self._dropped[i] < failed):
                rows, weights = kept[i]
                undo.append(Undo(table, rows, None if table.weights is None else weights, change.removed))
        for i, table in enumerate(self._tables):
            if len(slots[i]) and (failed < 0 or self._stored[i] < failed):
                undo.append(Undo(table, None, None, slots[i]))
        if failed >= 0:
            for native in self._natives:
                native.raise_failure()
        for nest in self._nests:
            nest.changed = False
        return True
