"""A select and its nested selects, if all of them are native: their steps are run together."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from freshet.engine import descriptions as at
from freshet.engine.answers import Owner
from freshet.engine.native import Native
from freshet.engine.steps import run_steps
from freshet.engine.table import Table
from freshet.scalar.lanes import width
from freshet.state.arrays import Int64s
from freshet.state.rows import Rows, no_rows
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
        self.enter: dict[int, Int64s] = {key: np.concatenate(rows) for key, rows in enter.items()}
        self.leave: dict[int, Int64s] = {key: np.concatenate(rows) for key, rows in leave.items()}
        self._last, self._nothing = native, no_rows(width(owner.types))
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
        if not self.changed:
            return self._nothing
        self.changed = False
        self._run(self.finish, _NO_SLOTS)
        return self._last.pending.take()

    def _run(self, steps: Int64s, slots: Slots) -> None:
        for native in self.natives:
            native.ready()
        if run_steps(steps, slots) >= 0:
            for native in self.natives:
                native.raise_failure()
