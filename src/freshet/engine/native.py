"""Describes the state of a select for its native steps (engine/descriptions).

Law: a description is valid from `refresh` until an array that it refers to grows, which makes it stale; a step begins
with valid descriptions. Expressions and aggregates that steps cannot compute are left to the select's own methods, a
chunk of rows at a time; a select whose join itself cannot be native (computed keys, comparisons on edges) has no native
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from freshet.engine import descriptions as at
from freshet.engine.aggregate import Aggregate
from freshet.engine.answers import Answering, Owner
from freshet.engine.join import Join
from freshet.engine.lane_code import LaneCode
from freshet.engine.maintained import Outlet
from freshet.engine.orders import Order
from freshet.engine.passing import Passing
from freshet.engine.sources import KeyColumn, Source
from freshet.engine.steps import run_steps
from freshet.engine.table import Table
from freshet.scalar.expression import ColumnRef, Expression, Reference
from freshet.scalar.lanes import NULLS, layout, value_lanes, width
from freshet.state.arena import Growable
from freshet.state.arrays import TEXT, Bools, Int64s, one_text
from freshet.state.tuples import Slots, Tuples

_MOST_ROLES = 60  # roles of one table, one bit each


def is_covered(join: Join) -> bool:
    """Whether a join's steps can be native."""
    columns = [c for cs in join.keys_of.values() for c in cs]
    roles = max((len(r) for r in join.roles.values()), default=0)
    plain = not join.ordered and all(c.parts is not None for c in columns)
    return plain and roles <= _MOST_ROLES and not any(_returns(join, c, ()) for c in columns)


def _further(join: Join, column: KeyColumn) -> list[KeyColumn]:
    """The keys that new ids of a key need themselves, because the tuples of a generalized node are keys. A node whose
    keys are its own tuples needs none."""
    own = column.source.tuples is column.dictionary.tuples
    return [] if own else join.keys_of.get(id(column.dictionary.tuples), [])


def _returns(join: Join, column: KeyColumn, above: tuple[int, ...]) -> bool:
    """Whether new ids of a key may lead back to the same key."""
    if id(column) in above:
        return True
    return any(_returns(join, c, (*above, id(column))) for c in _further(join, column))


class Native(Answering):
    """`grouped`: whether rows enter groups natively; `finishes`: whether the delta is made natively, too."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner)
        self._kept: list[Int64s] = []  # arrays whose addresses are in the descriptions
        self._list = np.zeros(at.LIST_WIDTH, np.int64)  # of the slots that enter or leave
        self._watched: list[Growable] = []
        self.finishes = False
        self._tuples: dict[int, tuple[Tuples, Table | None, Int64s]] = {}
        self._columns: dict[int, tuple[KeyColumn, Int64s]] = {}
        self.entries: dict[int, Int64s] = {}
        self.enter: dict[int, Int64s] = {}
        self.leave: dict[int, Int64s] = {}
        self._texts: list[int] = []  # that the descriptions refer to
        self._describe_select()
        self.tree = np.zeros(at.JOIN_WIDTH, np.int64)
        self._passage = np.zeros(at.PASSAGE_WIDTH, np.int64)
        if owner.passing is None:
            self._describe_join()
            for source in self._sources():
                entry = self.entries[id(source)] = self._describe_entry(source)
                self.enter[id(source)] = self.step(at.ENTER, entry, self._list)
                self.leave[id(source)] = self.step(at.LEAVE, entry, self._list)
        else:
            self.finishes = self._describe_passage(owner.passing) and self.finishes
        self.finish = self.step(at.FINISH, self.select)
        self._watch()

    def emit_through(self, outlet: Outlet) -> None:
        self.select[at.OUTLET] = outlet.address

    def step(self, what: int, first: Int64s, second: Int64s | None = None) -> Int64s:
        other = 0 if second is None else second.ctypes.data
        return np.array([[what, first.ctypes.data, other, self.run.ctypes.data]], np.int64)

    def taking(self, fed: Table, nested: Int64s) -> Int64s:
        """The step that applies the delta of a nested query."""
        if self.owner.passing is not None:
            return self.step(at.PASS, self._passage, nested)
        return self.step(at.TAKE, self.entries[id(fed)], nested)

    def described(self, table: Table) -> Int64s:
        """The description of a table that the join reads."""
        return self._of(table.tuples, table)

    def _id_of(self, text: str) -> int:
        self._texts.append(int(self.owner.pool.intern(one_text(text, TEXT))[0]))
        return self._texts[-1]

    def string_marks(self, marked: Bools) -> None:
        marked[self._texts] = True

    def _number(self, thing: Any) -> int:
        self._objects.append(thing)
        return len(self._objects) - 1

    def _address(self, array: Int64s) -> int:
        self._kept.append(array)
        return array.ctypes.data

    # Results ------------------------------------------------------------------------------------------------------

    def _describe_select(self) -> None:
        row, owner = self.select, self.owner
        row[at.SINK] = owner.sink()
        self.emit_through(owner.outlet)
        row[at.RAW], row[at.PENDING] = self.raw.row.ctypes.data, self.pending.row.ctypes.data
        if owner.aggregate is not None:
            self.grouped = self._describe_groups(owner.aggregate)
        if row[at.SINK] == at.TO_GROUPS and not self.grouped:
            row[at.SINK] = at.TO_PYTHON
        plain = owner.aggregate is None and row[at.SINK] == at.TO_PENDING
        self.finishes = not self.plan.distinct and (plain or (self.grouped and self._describe_shown()))

    def _describe_groups(self, aggregate: Aggregate) -> bool:
        grouping, row = self.plan.grouping, self.select
        assert grouping is not None
        if aggregate.writers or self.plan.copies or not all(f.is_plain for f in aggregate.feeds):
            return False
        code = LaneCode(self._in_results(), self._id_of)
        conditions = code.add(self.plan.residual)
        checked = len(code)
        keys = code.add(grouping.keys)
        feeds = [self._feed(code, feed.call) for feed in aggregate.feeds]
        if conditions is None or keys is None or None in feeds:
            return False
        row[at.CODE], row[at.CODE_STEPS] = self._address(code.array()), len(code)
        row[at.CONDITIONS], row[at.CONDITION_COUNT] = self._address(np.array(conditions, np.int64)), len(conditions)
        row[at.CONDITION_STEPS] = checked
        fields = np.array([[k, e.type.lanes] for k, e in zip(keys, grouping.keys, strict=True)], np.int64)
        row[at.KEY_FIELDS], row[at.KEY_COUNT] = self._address(fields.reshape(-1, 2)), len(keys)
        row[at.KEY_VALUES] = value_lanes([e.type for e in grouping.keys])
        described = [
            [feed.count, feed.lanes, feed.wide if feed.whole else 0, *registers]
            for feed, registers in zip(aggregate.feeds, feeds, strict=True)
            if registers is not None
        ]
        row[at.FEEDS] = self._address(np.array(described, np.int64).reshape(-1, at.FEED_WIDTH))
        row[at.FEED_COUNT] = len(described)
        row[at.PROGRAM], row[at.PROGRAM_STEPS] = self._address(aggregate.program), len(aggregate.program)
        row[at.ANSWER_NULLS] = aggregate.null_lane
        row[at.LISTED] = aggregate.listed.ctypes.data
        return True

    def _feed(self, code: LaneCode, number: int) -> tuple[int, int] | None:
        """The registers of an aggregate's argument and filter."""
        assert self.plan.grouping is not None
        call = self.plan.grouping.aggregates[number]
        argument, where = code.add(call.args), code.add(() if call.filter is None else (call.filter,))
        if argument is None or where is None or len(argument) > 1:
            return None
        return (argument or [-1])[0], (where or [-1])[0]

    def _in_results(self) -> Callable[[Reference], tuple[int, int, int]]:
        types, wanted = self.owner.row_types, self.owner.wanted
        firsts, nulls = layout(types), value_lanes(types)
        places = {(c.relation, c.column): i for i, c in enumerate(wanted)}

        def where(c: Reference) -> tuple[int, int, int]:
            assert isinstance(c, ColumnRef)
            i = places[c.relation, c.column]
            return firsts[i], nulls + i // NULLS, i % NULLS

        return where

    def _describe_shown(self) -> bool:
        grouping, row = self.plan.grouping, self.select
        assert grouping is not None
        if grouping.having is not None:
            return False
        keys, answers = [k.type for k in grouping.keys], [a.type for a in grouping.aggregates]
        places = [
            (first + lane, nulls + i // NULLS, i % NULLS)
            for types, first in ((keys, 0), (answers, width(keys)))
            for nulls in (first + value_lanes(types),)
            for i, lane in enumerate(layout(types))
        ]

        def where(c: Reference) -> tuple[int, int, int]:
            return places[c.column]

        code = LaneCode(where, self._id_of)
        shown = code.add(self.plan.outputs)
        if shown is None:
            return False
        row[at.SHOWN_CODE], row[at.SHOWN_STEPS] = self._address(code.array()), len(code)
        fields = np.array([[r, e.type.lanes] for r, e in zip(shown, self.plan.outputs, strict=True)], np.int64)
        row[at.SHOWN_FIELDS], row[at.SHOWN_COUNT] = self._address(fields.reshape(-1, 2)), len(shown)
        row[at.SHOWN_VALUES] = value_lanes(self.owner.types)
        return True

    def _describe_passage(self, passing: Passing) -> bool:
        row, types, wanted = self._passage, passing.query.types, self.owner.row_types
        firsts, nulls = layout(types), value_lanes(types)

        def where(c: Reference) -> tuple[int, int, int]:
            return firsts[c.column], nulls + c.column // NULLS, c.column % NULLS

        code = LaneCode(where, self._id_of)
        conditions, columns = code.add(passing.filter), code.add(self.owner.wanted)
        if conditions is None or columns is None:
            return False
        row[at.PASS_SELECT] = self.select.ctypes.data
        row[at.PASS_CODE], row[at.PASS_STEPS] = self._address(code.array()), len(code)
        row[at.PASS_CONDITIONS] = self._address(np.array(conditions, np.int64))
        row[at.PASS_CONDITION_COUNT] = len(conditions)
        passed = np.array([[r, type_.lanes] for r, type_ in zip(columns, wanted, strict=True)], np.int64)
        row[at.PASS_COLUMNS], row[at.PASS_COUNT] = self._address(passed.reshape(-1, 2)), len(columns)
        row[at.PASS_VALUES], row[at.PASS_WIDTH] = value_lanes(wanted), width(wanted)
        return True

    # The join ----------------------------------------------------------------------------------------------------

    def _sources(self) -> list[Source]:
        found = {id(n.source): n.source for n in self.join.nodes}
        return [found[key] for key in self.join.roles]

    def _describe_join(self) -> None:
        row, join, lanes = self.tree, self.join, self.join.results.width
        row[at.TREE], row[at.CHECKS] = join.tree.at, join.tree.checks_at
        row[at.NODES] = len(join.nodes)
        self._heaviest = np.zeros(len(join.nodes), np.int64)
        row[at.HEAVIEST] = self._heaviest.ctypes.data
        row[at.CHUNK_AT] = self._address(np.empty(at.MOST_ROWS * lanes, np.int64))
        row[at.CHUNK_WEIGHTS] = self._address(np.empty(at.MOST_ROWS, np.int64))
        row[at.CHUNK] = min([at.MOST_ROWS, *(len(o.buffers.weights) for o in join.orders.values())])
        row[at.CHUNK_WIDTH], row[at.NULLS] = lanes, join.results.nulls
        missing = np.zeros(len(join.nodes), np.int64)
        for child, order in join.missing.items():
            missing[child] = self._order(order)
        row[at.MISSING], row[at.SELECT_AT] = self._address(missing), self.select.ctypes.data
        self._orders = {node: self._order(order) for node, order in join.orders.items()}
        self.swept = np.zeros((len(join.swept), at.SWEPT_WIDTH), np.int64)
        self.select[at.SWEPT], self.select[at.SWEPT_COUNT] = self.swept.ctypes.data, len(join.swept)

    def _order(self, order: Order) -> int:
        row, buffers = np.zeros(at.ORDER_WIDTH, np.int64), order.buffers
        row[at.STEPS], row[at.STEP_COUNT] = self._address(order.steps), order.width
        row[at.WANTED], row[at.WANTED_COUNT] = self._address(order.wanted), len(order.wanted)
        row[at.SLOTS_AT], row[at.CURSOR] = buffers.slots.ctypes.data, buffers.cursor.ctypes.data
        row[at.PARTIAL], row[at.FIRST_NODE] = buffers.partial.ctypes.data, order.node
        row[at.ORDER] = self._number(order)
        return self._address(row)

    def _describe_entry(self, source: Source) -> Int64s:
        join, nodes = self.join, self.join.roles[id(source)]
        row = np.zeros(at.ENTRY_WIDTH, np.int64)
        row[at.JOIN], row[at.ENTRY] = self.tree.ctypes.data, self._number(source)
        row[at.OF] = self._of(source.tuples, source if isinstance(source, Table) else None).ctypes.data
        roles = np.zeros((len(nodes), at.ROLE_WIDTH), np.int64)
        for role, node in zip(roles, nodes, strict=True):
            role[at.ROLE_NODE], role[at.ORIGIN] = node, join.origins[node]
            role[at.ROLE_ORDER] = self._orders[join.origins[node]]
            self._describe_filter(role, source, self.plan.nodes[node].filter)
        row[at.ROLES], row[at.ROLE_COUNT] = self._address(roles), len(nodes)
        assigns: list[list[int]] = []
        for column in join.keys_of.get(id(source.tuples), ()):
            users = sum(1 << i for i, node in enumerate(nodes) if node in column.users)
            self._assigns(column, -1, users, assigns)
        row[at.ASSIGNS] = self._address(np.array(assigns, np.int64).reshape(-1, at.ASSIGN_WIDTH))
        row[at.ASSIGN_COUNT] = len(assigns)
        return row

    def _assigns(self, column: KeyColumn, above: int, users: int, out: list[list[int]]) -> None:
        out.append([self._column(column).ctypes.data, above, users])
        place = len(out) - 1
        for further in _further(self.join, column):
            self._assigns(further, place, 0, out)

    def _column(self, column: KeyColumn) -> Int64s:
        if id(column) not in self._columns:
            row = np.zeros(at.COLUMN_WIDTH, np.int64)
            source = column.source if isinstance(column.source, Table) else None
            row[at.SOURCE] = self._of(column.source.tuples, source).ctypes.data
            row[at.DICTIONARY] = self._of(column.dictionary.tuples, None).ctypes.data
            assert column.parts is not None
            row[at.PARTS], row[at.PART_COUNT] = self._address(column.parts), len(column.parts)
            self._columns[id(column)] = column, row
        return self._columns[id(column)][1]

    def _of(self, tuples: Tuples, table: Table | None) -> Int64s:
        if id(tuples) not in self._tuples:
            row = np.zeros(at.TUPLES_WIDTH, np.int64)
            row[at.TUPLES] = self._number(tuples if table is None else table)
            self._tuples[id(tuples)] = tuples, table, row
        return self._tuples[id(tuples)][2]

    def _describe_filter(self, role: Int64s, source: Source, filter: Sequence[Expression]) -> None:
        """A filter that steps cannot compute is evaluated by Python."""
        if not filter:
            return
        code = LaneCode(lambda c: source.lane(c.column), self._id_of)
        registers = code.add(filter)
        if registers is None:
            role[at.FILTER] = -1
            return
        role[at.FILTER_OUT] = code.all_of(registers)
        role[at.FILTER], role[at.FILTER_STEPS] = self._address(code.array()), len(code)

    # Addresses ---------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self.grouped and self.owner.aggregate is not None:
            aggregate = self.owner.aggregate
            self._watched += [aggregate.state, aggregate.answers, aggregate.flags, aggregate.meta]
            if self.plan.grouping is not None and self.plan.grouping.keys:
                self.select[at.GROUPS] = self._of(aggregate.groups, None).ctypes.data
        for tuples, table, _ in self._tuples.values():
            self._watched += [tuples.table, tuples.lanes, tuples.occupancy, tuples.free, tuples.meta]
            if table is not None and table.weights is not None:
                self._watched += [table.weights, table.greatest]
        for column, _ in self._columns.values():
            self._watched += [column.ids, column.dictionary.gone]
        self._watched.append(self.owner.steps)
        if self.owner.join is not None:
            self._watched += [self.join.work, *self._greatest()]
        for array in self._watched:
            array.watchers.append(self._mark_stale)

    def close(self) -> None:
        """Stops watching the tables, which outlive this view."""
        for array in self._watched:
            array.watchers[:] = [w for w in array.watchers if w != self._mark_stale]

    def _greatest(self) -> list[Growable]:
        return [n.source.greatest for n in self.join.nodes if isinstance(n.source, Table)]

    def _mark_stale(self) -> None:
        self.stale = True

    def refresh(self) -> None:
        """Writes the current addresses to the descriptions."""
        if self.owner.join is not None:
            self._refresh_join(self.owner.join)
        aggregate = self.owner.aggregate if self.grouped else None
        if aggregate is not None:
            aggregate.reserve(max(aggregate.groups.used, 1))
        for tuples, table, row in self._tuples.values():
            row[at.PLACES], row[at.PLACE_COUNT] = tuples.table.data.ctypes.data, len(tuples.table.data)
            row[at.LANES], row[at.STRIDE] = tuples.lanes.data.ctypes.data, tuples.lanes.columns
            row[at.ROOM], row[at.OCCUPIED] = len(tuples.occupancy.data), tuples.occupancy.data.ctypes.data
            row[at.WIDTH], row[at.KEY_LANES] = tuples.width, tuples.key_lanes
            row[at.FREE], row[at.META] = tuples.free.data.ctypes.data, tuples.meta.data.ctypes.data
            if table is not None and table.weights is not None:
                table.weights.grow(table.capacity)
                row[at.WEIGHTS] = table.weights.data.ctypes.data
                row[at.GREATEST] = table.greatest.data.ctypes.data
        for column, row in self._columns.values():
            column.ids.grow(column.source.capacity)
            row[at.IDS], row[at.REMOVED] = column.ids.data.ctypes.data, column.dictionary.gone.data.ctypes.data
        row = self.select
        row[at.WORK_STEPS] = self.owner.steps.data.ctypes.data
        if aggregate is not None:
            row[at.STATE], row[at.STATE_WIDTH] = aggregate.state.data.ctypes.data, aggregate.state.columns
            row[at.ANSWERS], row[at.ANSWER_WIDTH] = aggregate.answers.data.ctypes.data, aggregate.answers.columns
            row[at.FLAGS], row[at.ANSWER_META] = aggregate.flags.data.ctypes.data, aggregate.meta.data.ctypes.data
            row[at.GROUP_ROOM], self.touched = aggregate.room, aggregate.touched
            row[at.TOUCHED], row[at.TOUCHED_ROOM] = self.touched.ctypes.data, len(self.touched)
        row[at.DISTINGUISHES] = self.owner.distinguishes and not any(s.counted for s in self.owner.sources)
        self.stale = False

    def _refresh_join(self, join: Join) -> None:
        if join.tree.stale:
            join.tree.refresh()
        self.tree[at.JOIN_WORK] = join.work.data.ctypes.data
        for i, node in enumerate(join.nodes):
            greatest = getattr(node.source, "greatest", None)
            self._heaviest[i] = 0 if greatest is None else greatest.data.ctypes.data
        for swept, (dictionary, _) in zip(self.swept, join.swept, strict=True):
            swept[at.SWEPT_REMOVED] = dictionary.gone.data.ctypes.data

    # Running -----------------------------------------------------------------------------------------------------

    def insert(self, source: Source, slots: Slots) -> None:
        self._run(self.enter[id(source)], slots)

    def remove(self, source: Source, slots: Slots) -> None:
        self._run(self.leave[id(source)], slots)

    def _run(self, steps: Int64s, slots: Slots) -> None:
        self.ready()
        self._list[at.LIST_AT], self._list[at.LIST_LENGTH] = slots.ctypes.data, len(slots)
        if run_steps(steps) >= 0:
            self.raise_failure()

    def settle(self) -> bool:
        """Passes the rows that steps have collected to the select's own methods. Returns whether steps changed
        groups."""
        for kept, buffer in ((self.owner.raw, self.raw), (self.owner.pending, self.pending)):
            if len(buffer):
                kept.append(buffer.take())
        changed, self.select[at.CHANGED] = bool(self.select[at.CHANGED]), 0
        if self.owner.join is not None:
            self.owner.join.left |= bool(self.select[at.LEFT_AT])
        self.select[at.LEFT_AT] = 0
        return changed
