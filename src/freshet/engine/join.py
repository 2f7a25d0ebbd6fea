"""The join operator: one tree of counters over stored tables (state/tree has the laws).

A change of one table reaches each of its roles in turn, as if the roles were copies updated one after the other, so
that a self-join's deltas add up exactly. Rows that vanish are enumerated before the tuples die, rows that appear after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from freshet.budget import look
from freshet.engine.maintained import Outlet
from freshet.engine.ordered_edge import COMPARISONS, OrderedEdge
from freshet.engine.orders import CHUNK, Buffers, Order, make_order
from freshet.engine.sources import KeyColumn, Source, bind_keys
from freshet.errors import EvaluationError, PlanError
from freshet.logical.kinds import JoinKind
from freshet.plans.model import QueryPlan
from freshet.scalar.evaluate import evaluate_filter
from freshet.scalar.expression import ColumnRef
from freshet.scalar.lanes import width
from freshet.state import tree_table
from freshet.state.arena import Growable, Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.enumeration import DONE, MOST_COPIES, NODE, enumerate_rows, gather
from freshet.state.rows import TOO_MANY_COPIES, Rows, Sink
from freshet.state.strings import StringPool
from freshet.state.tree import change_unseen, enter, leave, live_parents, members_of, rise
from freshet.state.tree_table import (
    ALIVE,
    ANY_DISTANCE,
    BAND,
    CHECK_COLUMNS,
    CHECK_STEPS,
    CHECKS,
    CHECKS_END,
    CHILD_KEY,
    CHILD_LINKS,
    CHILD_SIDES,
    CHILD_VALUES,
    COMPARISON,
    COUNTER,
    ENDS,
    FIRST,
    FULL,
    KEYS,
    KIND,
    LANES,
    LIVE_LINKS,
    LIVE_SIDES,
    MOST_NODES,
    NEXT,
    NONE,
    OUTPUT,
    OUTPUT_CHILDREN,
    PARENT,
    PARENT_KEY,
    PARENT_LINKS,
    PARENT_SIDES,
    PARENT_VALUES,
    PRESENT,
    ROOM,
    STATUS,
    TREE_COLUMNS,
    WEIGHT,
    WIDTH,
)  # fmt: skip
from freshet.state.tuples import Slots

_KINDS = {
    JoinKind.INNER: tree_table.INNER,
    JoinKind.SEMI: tree_table.SEMI,
    JoinKind.ANTI: tree_table.ANTI,
    JoinKind.LEFT: tree_table.LEFT,
}


@dataclass(slots=True)
class _Node:
    """What a node keeps by slot; links are a pair (next, previous) for each edge end."""

    source: Source
    status: Growable
    counter: Growable
    child_links: Growable | None
    parent_links: dict[int, Growable]  # by child node


class Join:
    """`wanted` are the columns results are made of; `sources` the tuples of each relation of the plan. Result rows that
    appear or vanish go to `out` while `outlet` is open; while it is closed, none are made."""

    def __init__(
        self, scope: Scope, plan: QueryPlan, sources: Sequence[Source], wanted: Sequence[ColumnRef], pool: StringPool,
        out: Sink, outlet: Outlet,
    ) -> None:  # fmt: skip
        self.plan, self.pool, self.wanted = plan, pool, tuple(wanted)
        self.out, self.outlet = out, outlet
        self.types = [c.type for c in wanted]
        self.width, self.nulls = width(self.types), sum(t.lanes for t in self.types)
        self.sources, self.edges = bind_keys(scope, plan, list(sources), pool)
        self.nodes = [self._make_node(scope, i) for i in range(len(plan.nodes))]
        self.edge_keys: list[Growable | None] = [
            None if n.edge is None else scope.array(f"edge{i}", np.int32, columns=4) for i, n in enumerate(plan.nodes)
        ]
        self.ordered = {
            i: OrderedEdge.make(scope, i, n.parent, n.edge.comparison)
            for i, n in enumerate(plan.nodes)
            if n.edge is not None and n.edge.comparison is not None
        }
        if len(plan.nodes) > MOST_NODES:
            raise PlanError(f"a join of {len(plan.nodes)} nodes; at most {MOST_NODES} are kept in one tree")
        self.work: Growable = scope.array("work", np.int64)
        self.tree = np.full((len(plan.nodes), TREE_COLUMNS), -1, np.int64)
        self._write_shape()
        self.tree_at, self.checks_at = self.tree.ctypes.data, self.checks.ctypes.data  # what kernels take
        self.origins = [self._origin(i) for i in range(len(plan.nodes))]
        self.orders = {i: make_order(plan, i, self.wanted, self._lane) for i in {0, *self.origins}}
        self.missing = {
            c: make_order(plan, n.parent, self.wanted, self._lane, missing=c)
            for c, n in enumerate(plan.nodes)
            if n.edge is not None and n.edge.kind is JoinKind.LEFT
        }
        self.roles: dict[int, list[int]] = {}
        for i, n in enumerate(plan.nodes):
            if not n.generalized:
                self.roles.setdefault(id(self.nodes[i].source), []).append(i)
        self.keys_of: dict[int, list[KeyColumn]] = {}
        for column in {id(k): k for e in self.edges if e is not None for k in e.columns}.values():
            self.keys_of.setdefault(id(column.source.tuples), []).append(column)
        dictionaries = {id(e.dictionary): e.dictionary for e in self.edges if e is not None}
        self.swept = [
            (d, [k for ks in self.keys_of.values() for k in ks if k.dictionary is d]) for d in dictionaries.values()
        ]
        self.compared = {
            id(self.nodes[i].source)
            for i in self.ordered
            if not plan.nodes[i].output and len(self.roles[id(self.nodes[i].source)]) == 1
        }
        self._heavy = False  # whether any weight counts
        self._ones, self._minus = np.ones(CHUNK, np.int64), np.full(CHUNK, -1, np.int64)
        self._stale = True
        self._watch()

    # Shape ----------------------------------------------------------------------------------------------------

    def _make_node(self, scope: Scope, i: int) -> _Node:
        node, children = self.plan.nodes[i], [c for c, n in enumerate(self.plan.nodes) if n.parent == i]
        chained = [c for c in children if not node.generalized]
        return _Node(
            self.sources[node.relation],
            scope.array(f"status{i}", np.int8),
            scope.array(f"counter{i}", np.int8),
            None if node.parent < 0 else scope.array(f"child{i}", np.int32, columns=2),
            {c: scope.array(f"parent{c}", np.int32, columns=2) for c in chained},
        )

    def _write_shape(self) -> None:
        nodes = self.plan.nodes
        checks: list[list[int]] = []
        for i, node in enumerate(nodes):
            row = self.tree[i]
            children = [c for c, n in enumerate(nodes) if n.parent == i]
            edges = [n.edge for n in nodes if n.parent == i and n.edge is not None]
            row[FULL] = sum(e.kind is not JoinKind.LEFT for e in edges)
            row[FIRST] = children[0] if children else -1
            for c, following in zip(children, [*children, -1][1:], strict=True):
                self.tree[c, NEXT] = following
            row[PARENT] = node.parent
            row[KIND] = -1 if node.edge is None else _KINDS[node.edge.kind]
            row[OUTPUT] = node.output
            row[COMPARISON] = COMPARISONS[node.edge.comparison.operator][0] if i in self.ordered else NONE  # type: ignore[union-attr]
            row[BAND] = ANY_DISTANCE
            if i in self.ordered and self.ordered[i].comparison.band is not None:
                row[BAND] = self.ordered[i].comparison.band
            row[OUTPUT_CHILDREN] = any(nodes[c].output for c in children)
            row[CHECKS] = len(checks)
            for a in node.assertions:
                lefts = self._check_lanes(i, a.left, a.left_value)
                rights = self._check_lanes(i, a.right, a.right_value)
                checks += [[*x, *y] for x, y in zip(lefts, rights, strict=True)]
            row[CHECKS_END] = len(checks)
        self.checks = np.array(checks, np.int64).reshape(-1, CHECK_COLUMNS)

    def _check_lanes(self, node: int, path: tuple[int, ...], value: object) -> list[list[int]]:
        """An assertion's path and final lane, one for each lane of the value. Values under NULL are 0, and the edges on
        the way hold keys without NULLs, so lanes alone decide."""
        assert isinstance(value, ColumnRef)
        first, _, _ = self.sources[value.relation].lane(value.column)
        steps = [*path, *[-1] * (CHECK_STEPS - len(path))]
        return [[*steps, first + lane, node] for lane in range(value.type.lanes)]

    def _lane(self, column: ColumnRef) -> tuple[int, int, int]:
        return self.sources[column.relation].lane(column.column)

    def _origin(self, node: int) -> int:
        """The node whose tuples' fate decides which rows change when `node` does: above the topmost edge on the way to
        the root that only asks for existence, or the node itself."""
        origin, at = node, node
        while at >= 0:
            edge = self.plan.nodes[at].edge
            if edge is not None and edge.kind.filters:
                origin = self.plan.nodes[at].parent
            at = self.plan.nodes[at].parent
        return origin

    def _watch(self) -> None:
        for source in {id(n.source): n.source for n in self.nodes}.values():
            source.tuples.lanes.watchers.append(self._mark_stale)
            if source.weights is not None:
                source.weights.watchers.append(self._mark_stale)
        for edge in self.edges:
            if edge is not None:
                edge.dictionary.tuples.lanes.watchers.append(self._mark_stale)

    def unwatch(self) -> None:
        """Stops following the growth of tables, which outlive this view."""
        for source in {id(n.source): n.source for n in self.nodes}.values():
            for array in (source.tuples.lanes, source.weights):
                if array is not None:
                    array.watchers[:] = [w for w in array.watchers if w != self._mark_stale]

    def _mark_stale(self) -> None:
        self._stale = True

    def _refresh(self) -> None:
        """Sizes what is kept by slot and by key like its tables and dictionaries, and writes down the addresses."""
        for i, node in enumerate(self.nodes):
            row, room = self.tree[i], node.source.capacity
            row[ROOM] = room
            node.status.grow(room)
            node.counter.grow(room)
            row[STATUS], row[COUNTER] = node.status.data.ctypes.data, node.counter.data.ctypes.data
            lanes, weights = node.source.tuples.lanes, node.source.weights
            row[LANES], row[WIDTH] = lanes.data.ctypes.data, lanes.columns
            counts = weights is not None and node.source.counted and not self.plan.distinct_tree
            row[WEIGHT] = weights.data.ctypes.data if counts and weights is not None else 0
            for c, links in node.parent_links.items():
                links.grow(room)
                self.tree[c, PARENT_LINKS] = links.data.ctypes.data
            edge, keys = self.edges[i], self.edge_keys[i]
            if edge is None or keys is None or node.child_links is None:
                continue
            node.child_links.grow(room)
            keys.grow(edge.dictionary.capacity)
            edge.child.ids.grow(room)
            row[CHILD_LINKS], row[KEYS] = node.child_links.data.ctypes.data, keys.data.ctypes.data
            row[CHILD_KEY] = edge.child.ids.data.ctypes.data
            row[PARENT_KEY] = 0
            if edge.parent is not None:
                edge.parent.ids.grow(edge.parent.source.capacity)
                row[PARENT_KEY] = edge.parent.ids.data.ctypes.data
            if i in self.ordered:
                self._refresh_order(self.ordered[i], row, edge.dictionary.capacity)
        self._heavy = bool((self.tree[:, WEIGHT] != 0).any())
        self._stale = False

    def _refresh_order(self, order: OrderedEdge, row: Int64s, keys: int) -> None:
        above, below = self.nodes[order.parent].source.capacity, self.nodes[order.child].source.capacity
        for column, array, room in (
            (ENDS, order.ends, keys),
            (CHILD_SIDES, order.child_sides, below),
            (PARENT_SIDES, order.parent_sides, above),
            (LIVE_LINKS, order.live_links, above),
            (LIVE_SIDES, order.live_sides, above),
            (CHILD_VALUES, order.child_values, below),
            (PARENT_VALUES, order.parent_values, above),
        ):
            array.grow(room)
            row[column] = array.data.ctypes.data

    # Changes --------------------------------------------------------------------------------------------------

    def comes_first(self, source: Source) -> bool:
        """Whether a source's new tuples should come before its old ones go. Where tuples are only compared with, only
        the extreme of a key counts: a new value next to the old one moves it, or not, and each change touches no more
        than what lies between both. The other way round everything would lose its support and find it again."""
        return id(source) in self.compared

    def insert(self, source: Source, slots: Slots) -> None:
        """Tuples that are now in a table."""
        roles = self.roles.get(id(source))
        if not roles or not len(slots):
            return
        look()
        members = {i: self._members(i, slots) if self.plan.nodes[i].filter else slots for i in roles}
        for column in self.keys_of.get(id(source.tuples), ()):
            self._assign(column, _union([members[i] for i in column.users], slots))
        for order in self.ordered.values():
            for i in (order.child, order.parent):
                if i in members and len(members[i]):
                    order.assign(i, source, members[i])
        if self._stale:
            self._refresh()
        for i in roles:
            if not len(members[i]):
                continue
            if not self.outlet.open:
                change_unseen(self.tree_at, self.checks_at, i, members[i], 1, self.work.data)
                continue
            alive = enter(self.tree_at, self.checks_at, i, members[i])
            if len(alive):
                self._change(i, alive, 1)

    def remove(self, source: Source, slots: Slots) -> None:
        """Tuples about to leave a table, which still holds them."""
        roles = self.roles.get(id(source))
        if not roles or not len(slots):
            return
        look()
        if self._stale:
            self._refresh()
        for column in self.keys_of.get(id(source.tuples), ()):
            column.dictionary.gone.data[0] += len(slots)
        for i in roles:
            if not self.outlet.open:
                change_unseen(self.tree_at, self.checks_at, i, slots, -1, self.work.data)
                continue
            members, alive = members_of(self.tree_at, i, slots)
            if len(members):
                if len(alive):
                    self._change(i, alive, -1)
                leave(self.tree_at, i, members)

    def reweigh(self, source: Source, slots: Slots, before: Int64s) -> None:
        """Tuples of a bag that stay, with other weights than `before`: no counter moves, only result rows are told. As
        everywhere, roles change one after the other: those still to come are seen with the old weights."""
        roles = [i for i in self.roles.get(id(source), ()) if self.plan.nodes[i].output and self.origins[i] == i]
        if not self.outlet.open or not roles or self.plan.distinct_tree:
            return
        if self._stale:
            self._refresh()
        assert source.weights is not None
        order = np.argsort(slots)
        slots, before = slots[order], before[order]
        after = source.weights.data[slots]
        for at, i in enumerate(roles):
            found = self._results(self.orders[i], slots, after - before, self.orders[i].buffers)
            self.out.extend(self._seen_before(found, self.orders[i], roles[at + 1 :], slots, before, after))

    def _seen_before(
        self, found: Iterator[Rows], order: Order, roles: list[int], slots: Slots, before: Int64s, after: Int64s
    ) -> Iterator[Rows]:
        """Results with the weight that tuples in the given roles had before."""
        places = [place for place, node in enumerate(order.steps[:, NODE]) if node in roles]
        for rows in found:
            for place in places:
                taken = order.buffers.slots[: len(rows), place]
                at = np.minimum(np.searchsorted(slots, taken), len(slots) - 1)
                changed = slots[at] == taken
                at = at[changed]
                rows.weights[changed] = rows.weights[changed] // after[at] * before[at]
            yield rows

    def _members(self, node: int, slots: Slots) -> Slots:
        """Those of a table's tuples that take part in this role."""
        read = self.nodes[node].source.reader(slots)
        return slots[evaluate_filter(self.plan.nodes[node].filter, read, len(slots))]

    def _assign(self, column: KeyColumn, slots: Slots) -> None:
        column.ids.grow(column.source.capacity)
        fresh = column.assign(slots)
        # A generalized node's tuples are keys themselves: new ones need keys towards its own parent.
        if len(fresh):
            for above in self.keys_of.get(id(column.dictionary.tuples), ()):
                self._assign(above, fresh)

    def _change(self, node: int, tuples: Slots, sign: int) -> None:
        origin, work, own = self.origins[node], self.work.data, True
        while node != origin:
            node, sign, tuples, _, _ = rise(self.tree_at, self.checks_at, node, tuples, sign, origin, own, work)
            own = False
            if node < 0:
                return
        if sign < 0:
            self._collect(self.orders[origin], tuples, sign)
        _, _, _, left, keys = rise(self.tree_at, self.checks_at, node, tuples, sign, -1, own, work)
        if sign > 0:
            self._collect(self.orders[origin], tuples, sign)
        if left >= 0:  # the first child row replaces the row of NULLs, and the last one's departure brings it back
            parents = live_parents(self.tree_at, left, keys)
            if len(parents):
                self._collect(self.missing[left], parents, -sign)

    # Results --------------------------------------------------------------------------------------------------

    def _collect(self, order: Order, tuples: Slots, sign: int) -> None:
        self.out.extend(self._results(order, tuples, self._source_weights(order.node, tuples, sign), order.buffers))

    def _results(self, order: Order, tuples: Slots, weights: Int64s, buffers: Buffers) -> Iterator[Rows]:
        progress = np.zeros(3, np.int64)
        while not progress[DONE]:
            if self._stale:  # an answer is read with pauses
                self._refresh()
            look()
            n = enumerate_rows(
                self.tree_at, order.steps, tuples, weights, buffers.cursor, buffers.partial, progress, buffers.slots,
                buffers.weights,
            )  # fmt: skip
            if n:
                if self._weighs_much():
                    self._check_weights(order, tuples, weights, buffers.slots[:n])
                lanes = np.empty((n, self.width), np.int64)
                gather(self.tree_at, order.steps, buffers.slots, n, order.wanted, self.nulls, lanes)
                yield Rows(lanes, buffers.weights[:n].copy())

    def _weighs_much(self) -> bool:
        """Whether weights of some result might multiply to more than 64 bits."""
        return self._heavy and prod(float(n.source.heaviest) for n in self.nodes) > MOST_COPIES

    def _check_weights(self, order: Order, tuples: Slots, weights: Int64s, slots: Slots) -> None:
        """The law that a result's weight is the product of its tuples' weights holds in 64 bits or not at all."""
        sizes = np.zeros(int(tuples.max()) + 1)
        sizes[tuples] = np.abs(weights)
        about = sizes[slots[:, 0]]
        for place, node in enumerate(order.steps[:, NODE]):
            stored = self.nodes[node].source.weights
            if place and stored is not None:
                about *= np.where(slots[:, place] >= 0, stored.data[slots[:, place]], 1)
        if (about > MOST_COPIES).any():
            raise EvaluationError(TOO_MANY_COPIES)

    def _source_weights(self, node: int, tuples: Slots, sign: int) -> Int64s:
        source = self.nodes[node].source
        if source.weights is None or not source.counted or self.plan.distinct_tree:
            if len(tuples) > len(self._ones):
                self._ones = np.ones(2 * len(tuples), np.int64)
                self._minus = -self._ones
            return (self._ones if sign > 0 else self._minus)[: len(tuples)]
        return source.weights.data[tuples] * sign

    def answer(self, rows: int) -> Iterator[Rows]:
        """All results, `rows` at a time, from the root's alive tuples."""
        if self._stale:
            self._refresh()
        root, buffers = self.nodes[0], Buffers.make(rows, self.orders[0].width)
        for start in range(0, root.source.tuples.used, 1 << 20):
            part = root.status.data[start : min(start + (1 << 20), root.source.tuples.used)]
            alive = (np.flatnonzero(part >= ALIVE) + start).astype(np.int32)
            yield from self._results(self.orders[0], alive, self._source_weights(0, alive, 1), buffers)

    def count(self) -> int:
        """Number of results, by adding up from the leaves instead of enumerating: in 64 bits where doubles, carried
        alongside, say that they suffice, else in Python's integers."""
        if any(self.plan.nodes[i].output for i in self.ordered):  # how many compare is not kept
            return sum(int(rows.weights.sum()) for rows in self.answer(CHUNK))
        about = self._total(np.float64)
        return int(about) if about == 0 else int(self._total(np.int64 if about < 2.0**62 else object))

    def _total(self, kind: Any) -> Any:
        totals: dict[int, Any] = {}
        for i in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[i]
            if not self.plan.nodes[i].output:
                continue
            slots = np.flatnonzero(node.status.data[: node.source.tuples.used] >= ALIVE).astype(np.int32)
            counts = self._source_weights(i, slots, 1).astype(kind)
            for c, child in enumerate(self.plan.nodes):
                edge = self.edges[c]
                if child.parent != i or not child.output or edge is None or child.edge is None:
                    continue
                keys = slots if edge.parent is None else edge.parent.ids.data[slots]
                found = np.where(keys >= 0, totals[c][np.maximum(keys, 0)], 0)
                counts = counts * (np.maximum(found, 1) if child.edge.kind is JoinKind.LEFT else found)
            edge = self.edges[i]
            if edge is None:
                return counts.sum() if len(counts) else 0
            keys = edge.child.ids.data[slots]
            totals[i] = np.zeros(edge.dictionary.capacity, kind)
            np.add.at(totals[i], keys[keys >= 0], counts[keys >= 0])
        return 0

    # Upkeep ---------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Frees keys no tuple has any more, where enough have gathered."""
        for dictionary, columns in self.swept:
            if not dictionary.wants_sweep() or not dictionary.pays(sum(c.source.tuples.used for c in columns)):
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
        """Marks the text held in keys."""
        held = {id(e.dictionary): (e.dictionary, e.child) for e in self.edges if e is not None}
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
