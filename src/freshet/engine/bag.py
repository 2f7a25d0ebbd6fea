"""A bag kept fresh: the join of sets of tuples that form a cycle, by delta joins (state/bag has the law).

Each input is stored once, however many roles it has, with one index for each set of columns by which some delta join
looks it up. The bag's own rows are stored by the operator that reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshet.aggregates.accumulators import mark_texts
from freshet.budget import look
from freshet.engine.maintained import Maintained, Outlet, keeps, maintain
from freshet.engine.table import Table
from freshet.engine.work import FED
from freshet.plans.model import BagPlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import unpack
from freshet.scalar.types import Type
from freshet.state.arena import Growable, Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.bag import (
    INDEX_COLUMNS,
    OPTION_COLUMNS,
    STEP_COLUMNS,
    STORE_COLUMNS,
    extend,
    link_tuples,
    unlink_tuples,
)
from freshet.state.keys import PART_COLUMNS, Dictionary
from freshet.state.rows import HeldRows, Rows, consolidated, no_rows
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots, Tuples


@dataclass(slots=True)
class _Index:
    """Finds the tuples of a store by some of their lanes."""

    parts: Int64s
    dictionary: Dictionary
    ids: Growable
    keys: Growable
    links: Growable

    @classmethod
    def make(cls, scope: Scope, lanes: Sequence[int]) -> _Index:
        parts = np.zeros((len(lanes), PART_COLUMNS), np.int64)
        for i, lane in enumerate(lanes):
            parts[i, :3] = lane, 1, -1
        return cls(
            parts,
            Dictionary(scope.scope("keys"), len(lanes)),
            scope.array("ids", np.int32),
            scope.array("chains", np.int32, columns=2),
            scope.array("links", np.int32, columns=2),
        )

    def add(self, tuples: Tuples, slots: Slots) -> None:
        self.ids.grow(len(tuples.occupancy.data))
        self.links.grow(len(tuples.occupancy.data))
        self.dictionary.assign(tuples.lanes.data, slots, self.parts, self.ids.data)
        self.keys.grow(self.dictionary.capacity)
        link_tuples(slots, self.ids.data, self.keys.data, self.links.data)

    def remove(self, slots: Slots) -> None:
        self.dictionary.tuples.remove(unlink_tuples(slots, self.ids.data, self.keys.data, self.links.data))

    def arrays(self) -> tuple[Growable, ...]:
        t = self.dictionary.tuples
        return t.table, t.lanes, self.keys, self.links

    def addresses(self) -> tuple[int, ...]:
        t = self.dictionary.tuples
        return (
            t.table.data.ctypes.data, len(t.table.data), t.lanes.data.ctypes.data, t.lanes.columns,
            self.keys.data.ctypes.data, self.links.data.ctypes.data,
        )  # fmt: skip


class _Store:
    """The tuples of an input."""

    def __init__(self, scope: Scope, types: Sequence[Type]) -> None:
        self.scope, self.types = scope, types
        self.lanes = sum(t.lanes for t in types)
        self.tuples = Tuples(scope, self.lanes)
        self.marks = scope.array("marks", np.int8)
        self.indexes: dict[tuple[int, ...], tuple[int, _Index]] = {}  # by lanes: number and index

    def index(self, lanes: tuple[int, ...], numbers: list[_Index]) -> int:
        if lanes not in self.indexes:
            made = _Index.make(self.scope.scope("by" + "_".join(map(str, lanes))), lanes)
            self.indexes[lanes] = len(numbers), made
            numbers.append(made)
        return self.indexes[lanes][0]

    def add(self, rows: Int64s) -> Slots:
        slots = self.tuples.add(rows)
        self.marks.grow(len(self.tuples.occupancy.data))
        for _, index in self.indexes.values():
            index.add(self.tuples, slots)
        return slots

    def remove(self, slots: Slots) -> None:
        for _, index in self.indexes.values():
            index.remove(slots)
        self.tuples.remove(slots)

    def arrays(self) -> tuple[Growable, ...]:
        return self.tuples.table, self.tuples.lanes, self.marks

    def addresses(self) -> tuple[int, ...]:
        t = self.tuples
        return (
            t.table.data.ctypes.data, len(t.table.data), t.lanes.data.ctypes.data, t.lanes.columns,
            self.marks.data.ctypes.data,
        )  # fmt: skip


@dataclass(slots=True)
class _Program:
    """How tuples of one role are extended (columns as in state/bag)."""

    bound: Int64s
    steps: list[list[int]] = field(default_factory=list)
    options: list[list[int]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def part(self, values: Sequence[int]) -> tuple[int, int]:
        start = len(self.places)
        self.places.extend(values)
        return start, len(self.places)

    def arrays(self) -> tuple[Int64s, Int64s, Int64s]:
        return (
            np.array(self.steps, np.int64).reshape(-1, STEP_COLUMNS),
            np.array(self.options, np.int64).reshape(-1, OPTION_COLUMNS),
            np.array(self.places, np.int64),
        )


@keeps(BagPlan)
class BagOperator(Maintained):
    def __init__(
        self, scope: Scope, plan: BagPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        firsts = np.cumsum([0, *(t.lanes for t in self.types)]).tolist()
        self.lanes = firsts[-1]
        distinct = list(dict.fromkeys(plan.inputs))
        self.below = [maintain(scope.scope(f"input{i}"), each, tables, pool) for i, each in enumerate(distinct)]
        self.stores = [
            _Store(scope.scope(f"store{i}"), [f.type for f in each.fields]) for i, each in enumerate(distinct)
        ]
        self.role_store = [distinct.index(each) for each in plan.inputs]
        self.reads = [self.below[store] for store in self.role_store]
        #: For each role, the lane of the bag's row that each lane of its tuple is.
        self.role_lanes = [
            [firsts[p] + i for p in positions for i in range(self.types[p].lanes)] for positions in plan.attributes
        ]
        self.indexes: list[_Index] = []
        made = [self._program(role) for role in range(len(plan.inputs))]
        self.programs = [(p.bound, *p.arrays()) for p in made]
        self._addresses: tuple[Int64s, Int64s] | None = None  # of stores and indexes; valid until an array grows
        for array in self._arrays():
            array.watchers.append(self._forget_addresses)

    def _arrays(self) -> list[Growable]:
        return [a for s in self.stores for a in s.arrays()] + [a for x in self.indexes for a in x.arrays()]

    def _forget_addresses(self) -> None:
        self._addresses = None

    def _program(self, role: int) -> _Program:
        """Each step binds as few lanes as possible, chosen so that most inputs can use them next."""
        lanes, roles = self.role_lanes, range(len(self.role_lanes))
        bound = set(lanes[role])
        program = _Program(np.array(lanes[role], np.int64))
        left = [r for r in roles if r != role]
        self._step(program, [], [r for r in left if set(lanes[r]) <= bound], set())
        left = [r for r in left if not set(lanes[r]) <= bound]
        while left:
            needs = {r: frozenset(set(lanes[r]) - bound) for r in left}
            offers = [*needs.values()]
            *_, chosen = min((needs[r] == {*lanes[r]}, len(needs[r]), -offers.count(needs[r]), r) for r in left)
            new = needs[chosen]
            options = [r for r in left if needs[r] == new]
            checks = [r for r in left if needs[r] < new]
            self._step(program, options, checks, set(new))
            bound |= new
            left = [r for r in left if r not in options and r not in checks]
        return program

    def _step(self, program: _Program, options: Sequence[int], checks: Sequence[int], new: set[int]) -> None:
        start = len(program.options)
        for r in (*options, *checks):
            places = self.role_lanes[r]
            own = tuple(i for i, place in enumerate(places) if place not in new)
            index = self.stores[self.role_store[r]].index(own, self.indexes) if r in options else -1
            program.options.append(
                [
                    r, self.role_store[r], index, *program.part([places[i] for i in own]), *program.part(places),
                    *program.part([x for i, place in enumerate(places) if place in new for x in (place, i)]),
                ]
            )  # fmt: skip
        middle = start + len(options)
        program.steps.append([start, middle, middle, len(program.options)])

    # Transactions ---------------------------------------------------------------------------------------------

    def finish(self) -> Rows:
        parts = HeldRows()
        for number, (query, store) in enumerate(zip(self.below, self.stores, strict=True)):
            change = query.finish()
            self.steps.data[FED] += len(change)
            rows = np.ascontiguousarray(change.lanes[:, : store.lanes])
            gone, come = rows[change.weights < 0], rows[change.weights > 0]
            if len(gone):
                slots = store.tuples.find(gone)
                self._join(number, gone, slots, -1, parts)
                store.remove(slots)
            if len(come):
                self._join(number, come, store.add(come), 1, parts)
        return consolidated(parts, self.width) if parts else no_rows(self.width)

    def _join(self, number: int, rows: Int64s, slots: Slots, sign: int, parts: HeldRows) -> None:
        marks = self.stores[number].marks.data
        marks[slots] = 1
        for role, store in enumerate(self.role_store):
            if store == number:
                extended = self._extended(role, rows, sign)
                if not len(extended):
                    continue
                parts.append(Rows(extended, np.full(len(extended), sign, np.int64)))
        marks[slots] = 0

    def _extended(self, role: int, rows: Int64s, sign: int) -> Int64s:
        look()
        if self._addresses is None:
            self._addresses = (
                np.array([s.addresses() for s in self.stores], np.int64).reshape(-1, STORE_COLUMNS),
                np.array([x.addresses() for x in self.indexes], np.int64).reshape(-1, INDEX_COLUMNS),
            )
        stores, indexes = self._addresses
        bound, steps, options, places = self.programs[role]
        extended: Int64s = extend(
            stores, indexes, steps, options, places, role, sign, rows, bound, self.width, self.lanes,
            self.steps.data,
        )  # fmt: skip
        return extended

    # Answers --------------------------------------------------------------------------------------------------

    def _all(self, rows: int) -> Iterator[Int64s]:
        store = self.stores[self.role_store[0]]
        slots = store.tuples.slots()
        for start in range(0, len(slots), rows):
            yield self._extended(0, np.ascontiguousarray(store.tuples.lanes.data[slots[start : start + rows]]), 1)

    def packed(self) -> Iterator[Rows]:
        for lanes in self._all(4096):
            yield Rows(lanes, np.ones(len(lanes), np.int64))

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for lanes in self._all(4096):
            for start in range(0, len(lanes), rows):
                yield unpack(lanes[start : start + rows], self.types, self.pool)

    def count(self) -> int:
        return sum(len(lanes) for lanes in self._all(4096))

    def load(self, tables: Sequence[Table]) -> None:
        super().load(tables)
        for query, store in zip(self.below, self.stores, strict=True):
            for rows in query.packed():
                store.add(np.ascontiguousarray(rows.lanes[:, : store.lanes]))

    def close(self) -> None:
        super().close()
        for array in self._arrays():
            array.watchers.clear()

    def string_marks(self, marked: Bools) -> None:
        super().string_marks(marked)
        for store in self.stores:
            mark_texts(store.tuples.lanes.data, store.tuples.slots(), store.types, 0, marked)
