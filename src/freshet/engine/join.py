"""The join operator: one tree of counters over stored tables (state/tree has the laws).

A change of one table reaches each of its roles in turn, as if the roles were copies updated one after the other, so
that the deltas of a self-join add up exactly. Rows that disappear are enumerated before their tuples die, rows that
appear afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from freshet.budget import look
from freshet.engine.counter_tree import CounterTree
from freshet.engine.join_results import JoinResults
from freshet.engine.maintained import Outlet
from freshet.engine.orders import Order, make_order
from freshet.engine.sources import KeyColumn, Source
from freshet.engine.work import CHECKED, JOINED, PLACED
from freshet.logical.kinds import JoinKind
from freshet.plans.model import QueryPlan
from freshet.scalar.evaluate import evaluate_filter
from freshet.scalar.expression import ColumnRef
from freshet.state.arena import Growable, Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.comparison import recount
from freshet.state.enumeration import NODE
from freshet.state.rows import Rows, Sink
from freshet.state.strings import StringPool
from freshet.state.tree import change_unseen, enter, leave, live_parents, members_of, rise
from freshet.state.tree_table import ALIVE, PRESENT
from freshet.state.tuples import Slots


class Steps(Protocol):
    """Applies insertions and deletions in a source, as the join itself would."""

    def insert(self, source: Source, slots: Slots) -> None: ...

    def remove(self, source: Source, slots: Slots) -> None: ...

    def emit_through(self, outlet: Outlet) -> None: ...


class Join:
    """`wanted`: the columns of results; `sources`: the tuples of each relation of the plan. Result rows that appear or
    disappear are sent to `out` while `outlet` is open; while it is closed, none are computed."""

    def __init__(
        self, scope: Scope, plan: QueryPlan, sources: Sequence[Source], wanted: Sequence[ColumnRef], pool: StringPool,
        out: Sink, outlet: Outlet,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.out = out
        self.outlet = outlet
        self.tree = tree = CounterTree(scope, plan, sources, pool)
        self.results = JoinResults(tree, [c.type for c in wanted])
        self.nodes, self.ordered = tree.nodes, tree.ordered
        self.work: Growable = scope.array("work", np.int64)
        self.origins = [self._origin(i) for i in range(len(plan.nodes))]
        self.orders = {i: make_order(plan, i, tuple(wanted), tree.lane) for i in {0, *self.origins}}
        self.missing = {
            c: make_order(plan, n.parent, tuple(wanted), tree.lane, missing=c)
            for c, n in enumerate(plan.nodes)
            if n.edge is not None and n.edge.kind is JoinKind.LEFT
        }
        self.roles: dict[int, list[int]] = {}
        for i, n in enumerate(plan.nodes):
            if not n.generalized:
                self.roles.setdefault(id(self.nodes[i].source), []).append(i)
        self.keys_of: dict[int, list[KeyColumn]] = {}
        for column in {id(k): k for e in tree.edges if e is not None for k in e.columns}.values():
            self.keys_of.setdefault(id(column.source.tuples), []).append(column)
        dictionaries = {id(e.dictionary): e.dictionary for e in tree.edges if e is not None}
        self.swept = [
            (d, [k for ks in self.keys_of.values() for k in ks if k.dictionary is d]) for d in dictionaries.values()
        ]
        self.left = False  # whether tuples were removed since a sweep was last considered
        self.native: Steps | None = None  # applies changes natively, where possible
        self.compared = {
            id(self.nodes[i].source)
            for i in self.ordered
            if not plan.nodes[i].output and len(self.roles[id(self.nodes[i].source)]) == 1
        }

    def _origin(self, node: int) -> int:
        """The node whose tuples determine which rows change when `node` changes: the parent on the topmost edge towards
        the root that only tests existence, or the node itself."""
        origin, at = node, node
        while at >= 0:
            edge = self.plan.nodes[at].edge
            if edge is not None and edge.kind.filters:
                origin = self.plan.nodes[at].parent
            at = self.plan.nodes[at].parent
        return origin

    def emit_through(self, outlet: Outlet) -> None:
        self.outlet = outlet
        if self.native is not None:
            self.native.emit_through(outlet)

    # Changes --------------------------------------------------------------------------------------------------

    def comes_first(self, source: Source) -> bool:
        """Whether a source's new tuples should be inserted before its old ones are removed. If tuples are only compared
        with, only the extreme value of a key matters: inserting the new value first moves the extreme at most from the
        old to the new value, and only tuples between the two are touched. In the opposite order all tuples would lose
        their support and regain it."""
        return id(source) in self.compared

    def insert(self, source: Source, slots: Slots) -> None:
        """Tuples that were added to a table."""
        roles = self.roles.get(id(source))
        if not roles or not len(slots):
            return
        look()
        if self.native is not None:
            self.native.insert(source, slots)
            return
        self.tree.visits()  # those of reading the answer, which are not part of its maintenance
        members = {i: self.members(i, slots) if self.plan.nodes[i].filter else slots for i in roles}
        for column in self.keys_of.get(id(source.tuples), ()):
            self._assign(column, _union([members[i] for i in column.users], slots))
        for order in self.ordered.values():
            for i in (order.child, order.parent):
                if i in members and len(members[i]):
                    order.assign(i, source, members[i])
        if self.tree.stale:
            self.tree.refresh()
        for i in roles:
            if not len(members[i]):
                continue
            if not self.outlet.open:
                change_unseen(self.tree.at, self.tree.checks_at, i, members[i], 1, self.work.data)
                continue
            alive = enter(self.tree.at, self.tree.checks_at, i, members[i])
            if len(alive):
                self._change(i, alive, 1)
        self.work.data[PLACED] += self.tree.visits()

    def remove(self, source: Source, slots: Slots) -> None:
        """Tuples that are about to be removed from a table, which still contains them."""
        roles = self.roles.get(id(source))
        if not roles or not len(slots):
            return
        look()
        if self.native is not None:
            self.native.remove(source, slots)
            return
        if self.tree.stale:
            self.tree.refresh()
        self.left = True
        self.tree.visits()
        for column in self.keys_of.get(id(source.tuples), ()):
            column.dictionary.gone.data[0] += len(slots)
        for i in roles:
            if not self.outlet.open:
                change_unseen(self.tree.at, self.tree.checks_at, i, slots, -1, self.work.data)
                continue
            members, alive = members_of(self.tree.at, i, slots)
            if len(members):
                if len(alive):
                    self._change(i, alive, -1)
                leave(self.tree.at, i, members)
        self.work.data[PLACED] += self.tree.visits()

    def reweigh(self, source: Source, slots: Slots, before: Int64s) -> None:
        """Tuples of a bag whose weights have changed from `before`: no counter changes, only result rows are emitted.
        As always, roles change one after the other: later roles are seen with the old weights."""
        self.tree.visits()
        for i, edge in self.ordered.items():
            if edge.counts is not None and self.nodes[i].source is source:
                if self.tree.stale:
                    self.tree.refresh()
                recount(self.tree.at, i, slots)
        self._reweigh(source, slots, before)
        self.work.data[PLACED] += self.tree.visits()

    def _reweigh(self, source: Source, slots: Slots, before: Int64s) -> None:
        roles = [i for i in self.roles.get(id(source), ()) if self.plan.nodes[i].output and self.origins[i] == i]
        if not self.outlet.open or not roles or self.plan.distinct_tree:
            return
        if self.tree.stale:
            self.tree.refresh()
        assert source.weights is not None
        order = np.argsort(slots)
        slots, before = slots[order], before[order]
        after = source.weights.data[slots]
        for at, i in enumerate(roles):
            changed = self._counted(self.results.rows(self.orders[i], slots, after - before, self.orders[i].buffers))
            self.out.extend(self._seen_before(changed, self.orders[i], roles[at + 1 :], slots, before, after))

    def _seen_before(
        self, chunks: Iterator[Rows], order: Order, roles: list[int], slots: Slots, before: Int64s, after: Int64s
    ) -> Iterator[Rows]:
        """Results with the weight that tuples in the given roles had before."""
        places = [place for place, node in enumerate(order.steps[:, NODE]) if node in roles]
        for rows in chunks:
            for place in places:
                taken = order.buffers.slots[: len(rows), place]
                at = np.minimum(np.searchsorted(slots, taken), len(slots) - 1)
                changed = slots[at] == taken
                at = at[changed]
                rows.weights[changed] = rows.weights[changed] // after[at] * before[at]
            yield rows

    def members(self, node: int, slots: Slots) -> Slots:
        """The tuples of a table that satisfy the filter of this role."""
        read = self.nodes[node].source.reader(slots)
        return slots[evaluate_filter(self.plan.nodes[node].filter, read, len(slots))]

    def _assign(self, column: KeyColumn, slots: Slots) -> None:
        column.ids.grow(column.source.capacity)
        fresh = column.assign(slots)
        # The tuples of a generalized node are keys themselves: new ones need keys on the edge to its own parent.
        if len(fresh):
            for above in self.keys_of.get(id(column.dictionary.tuples), ()):
                self._assign(above, fresh)

    def _change(self, node: int, tuples: Slots, sign: int) -> None:
        origin, work, own = self.origins[node], self.work.data, True
        while node != origin:
            node, sign, tuples, _, _ = rise(self.tree.at, self.tree.checks_at, node, tuples, sign, origin, own, work)
            own = False
            if node < 0:
                return
        if sign < 0:
            self._collect(self.orders[origin], tuples, sign)
        _, _, _, left, keys = rise(self.tree.at, self.tree.checks_at, node, tuples, sign, -1, own, work)
        if sign > 0:
            self._collect(self.orders[origin], tuples, sign)
        if left >= 0:  # the first child row replaces the row of NULLs; removing the last one restores it
            parents = live_parents(self.tree.at, left, keys)
            if len(parents):
                self._collect(self.missing[left], parents, -sign)

    # Results --------------------------------------------------------------------------------------------------

    def _collect(self, order: Order, tuples: Slots, sign: int) -> None:
        weights = self.results.weights_of(order.node, tuples, sign)
        self.out.extend(self._counted(self.results.rows(order, tuples, weights, order.buffers)))

    def _counted(self, chunks: Iterator[Rows]) -> Iterator[Rows]:
        self.tree.in_vain()
        for rows in chunks:
            self.work.data[JOINED] += len(rows)
            yield rows
        self.work.data[[JOINED, CHECKED]] += self.tree.in_vain()  # rows that failed a comparison

    def answer(self, rows: int) -> Iterator[Rows]:
        """All results, `rows` at a time."""
        return self.results.answer(self.orders[0], rows)

    def alive(self, rows: int) -> Iterator[tuple[Slots, Int64s]]:
        """The alive tuples of the root and their weights, `rows` at a time."""
        return self.results.alive(rows)

    def count(self) -> int:
        return self.results.count(self.orders[0])

    # Maintenance ----------------------------------------------------------------------------------------------

    def unwatch(self) -> None:
        self.tree.unwatch()

    def sweep(self) -> None:
        """Frees keys that no tuple has any more, if there may be enough of them."""
        if not self.left:
            return
        self.left = False
        for dictionary, columns in self.swept:
            if not dictionary.wants_sweep(sum(c.source.tuples.used for c in columns)):
                continue
            marked = np.zeros(dictionary.capacity, np.bool_)
            for column in columns:
                used = column.source.tuples.used
                present = np.zeros(used, np.bool_)
                for i in column.users:
                    if self.plan.nodes[i].generalized:
                        present |= column.source.tuples.occupancy.data[:used] != 0
                    else:
                        present |= self.nodes[i].status.data[:used] != 0
                ids = column.ids.data[:used][present]
                marked[ids[ids >= 0]] = True
            dictionary.sweep(marked)

    def string_marks(self, marked: Bools) -> None:
        """Marks the texts that keys refer to."""
        held = {id(e.dictionary): (e.dictionary, e.child) for e in self.tree.edges if e is not None}
        for dictionary, key in held.values():
            lanes, at = dictionary.tuples.lanes.data[dictionary.tuples.slots()], 0
            for e in key.expressions:
                if e.type.pooled:
                    marked[lanes[:, at]] = True
                at += e.type.lanes

    def statistics(self) -> list[tuple[int, int]]:
        """Tuples and alive tuples of each node."""
        out = []
        for node in self.nodes:
            status = node.status.data[: node.source.tuples.used]
            out.append((int((status >= PRESENT).sum()), int((status >= ALIVE).sum())))
        return out


def _union(parts: list[Slots], everything: Slots) -> Slots:
    if len(parts) == 1:
        return parts[0]
    if any(len(p) == len(everything) for p in parts):
        return everything
    return np.unique(np.concatenate(parts)).astype(np.int32)
