"""The tree of counters of a join, in the form that kernels read: a row of numbers and addresses for each node.

State is kept by slot of the nodes' tuples and by key of the edges' dictionaries. When one of these grows, its arrays
have new addresses: the tree is stale then, and is refreshed before a kernel reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from freshet.engine.ordered_edge import COMPARISONS, OrderedEdge
from freshet.engine.sources import Source, bind_keys
from freshet.errors import PlanError
from freshet.logical.kinds import JoinKind
from freshet.plans.model import QueryPlan
from freshet.scalar.expression import ColumnRef
from freshet.state import tree_table
from freshet.state.arena import Growable, Scope
from freshet.state.arrays import Int64s
from freshet.state.comparison import IN_VAIN, LOOKED_PLACES, VISITED
from freshet.state.strings import StringPool
from freshet.state.tree_table import (
    ANY_DISTANCE,
    BAND,
    CHECK_COLUMNS,
    CHECK_STEPS,
    CHECKS,
    CHECKS_END,
    CHILD_BEST,
    CHILD_COUNTS,
    CHILD_KEY,
    CHILD_LINKS,
    CHILD_SECONDS,
    CHILD_SIDES,
    CHILD_VALUES,
    COMPARISON,
    COUNTER,
    ENDS,
    FIRST,
    FULL,
    FURTHER,
    KEYS,
    KIND,
    LANES,
    LIVE_BEST,
    LIVE_LINKS,
    LIVE_SIDES,
    LOOKED,
    MOST_NODES,
    NEXT,
    NONE,
    OUTPUT,
    OUTPUT_CHILDREN,
    PARENT,
    PARENT_KEY,
    PARENT_LINKS,
    PARENT_SECONDS,
    PARENT_SIDES,
    PARENT_VALUES,
    ROOM,
    SECOND,
    STATUS,
    STRICT,
    TREE_COLUMNS,
    WEIGHT,
    WIDTH,
)  # fmt: skip

_KINDS = {
    JoinKind.INNER: tree_table.INNER,
    JoinKind.SEMI: tree_table.SEMI,
    JoinKind.ANTI: tree_table.ANTI,
    JoinKind.LEFT: tree_table.LEFT,
}


@dataclass(slots=True)
class KeptNode:
    """What is stored by slot for a node; links are a pair (next, previous) for each end of an edge."""

    source: Source
    status: Growable
    counter: Growable
    child_links: Growable | None
    parent_links: dict[int, Growable]  # by child node


class CounterTree:
    def __init__(self, scope: Scope, plan: QueryPlan, sources: Sequence[Source], pool: StringPool) -> None:
        """`sources`: the tuples of each relation of the plan."""
        self.plan = plan
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
            raise PlanError(f"a join of {len(plan.nodes)} nodes; a tree can have at most {MOST_NODES}")
        self.table = np.full((len(plan.nodes), TREE_COLUMNS), -1, np.int64)
        self._looked = np.zeros(LOOKED_PLACES, np.int64)
        self.checks = self._write_shape()
        self.table[:1, LOOKED] = self._looked.ctypes.data
        self.at, self.checks_at = self.table.ctypes.data, self.checks.ctypes.data  # the arguments of kernels
        self.heavy = False  # whether some row has more than one copy
        self.stale = True
        self._watch()

    # Shape ----------------------------------------------------------------------------------------------------

    def _make_node(self, scope: Scope, i: int) -> KeptNode:
        node, children = self.plan.nodes[i], [c for c, n in enumerate(self.plan.nodes) if n.parent == i]
        chained = [c for c in children if not node.generalized]
        return KeptNode(
            self.sources[node.relation],
            scope.array(f"status{i}", np.int8),
            scope.array(f"counter{i}", np.int8),
            None if node.parent < 0 else scope.array(f"child{i}", np.int32, columns=2),
            {c: scope.array(f"parent{c}", np.int32, columns=2) for c in chained},
        )

    def _write_shape(self) -> Int64s:
        """Writes the parent of each node, and returns the steps of assertions."""
        nodes = self.plan.nodes
        checks: list[list[int]] = []
        for i, node in enumerate(nodes):
            row = self.table[i]
            children = [c for c, n in enumerate(nodes) if n.parent == i]
            edges = [n.edge for n in nodes if n.parent == i and n.edge is not None]
            row[FULL] = sum(e.kind is not JoinKind.LEFT for e in edges)
            row[FIRST] = children[0] if children else -1
            for c, following in zip(children, [*children, -1][1:], strict=True):
                self.table[c, NEXT] = following
            row[PARENT] = node.parent
            row[KIND] = -1 if node.edge is None else _KINDS[node.edge.kind]
            row[OUTPUT] = node.output
            row[COMPARISON], row[BAND], row[SECOND] = NONE, ANY_DISTANCE, NONE
            if i in self.ordered:
                comparison = self.ordered[i].comparison
                row[COMPARISON] = COMPARISONS[comparison.operator][0]
                row[BAND] = ANY_DISTANCE if comparison.band is None else comparison.band
                row[SECOND] = NONE if comparison.second is None else COMPARISONS[comparison.second.operator][0]
                further = self.ordered[i].further
                row[FURTHER], row[STRICT] = (0, 0) if further is None else (len(further.comparisons), further.strict)
            row[OUTPUT_CHILDREN] = any(nodes[c].output for c in children)
            row[CHECKS] = len(checks)
            for a in node.assertions:
                lefts = self._check_lanes(i, a.left, a.left_value)
                rights = self._check_lanes(i, a.right, a.right_value)
                checks += [[*x, *y] for x, y in zip(lefts, rights, strict=True)]
            row[CHECKS_END] = len(checks)
        return np.array(checks, np.int64).reshape(-1, CHECK_COLUMNS)

    def _check_lanes(self, node: int, path: tuple[int, ...], value: object) -> list[list[int]]:
        """The path and final lane of an assertion, one for each lane of the value. NULLs are stored as 0, and the edges
        along the path have keys without NULLs, so comparing lanes is enough."""
        assert isinstance(value, ColumnRef)
        first, _, _ = self.sources[value.relation].lane(value.column)
        steps = [*path, *[-1] * (CHECK_STEPS - len(path))]
        return [[*steps, first + lane, node] for lane in range(value.type.lanes)]

    def lane(self, column: ColumnRef) -> tuple[int, int, int]:
        """Where tuples store a column: its first lane, its null lane, and the bit in it."""
        return self.sources[column.relation].lane(column.column)

    # Work -----------------------------------------------------------------------------------------------------

    def in_vain(self) -> int:
        """The tuples that enumeration has looked at in vain, since they were last asked for."""
        return self._taken(IN_VAIN)

    def visits(self) -> int:
        """The nodes of sorted chains visited since they were last asked for."""
        return self._taken(VISITED)

    def _taken(self, place: int) -> int:
        count = int(self._looked[place])
        self._looked[place] = 0
        return count

    # Growth ---------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        for source in {id(n.source): n.source for n in self.nodes}.values():
            source.tuples.lanes.watchers.append(self._mark_stale)
            if source.weights is not None:
                source.weights.watchers.append(self._mark_stale)
        for edge in self.edges:
            if edge is not None:
                edge.dictionary.tuples.lanes.watchers.append(self._mark_stale)

    def unwatch(self) -> None:
        """Stops watching the tables, which outlive this view."""
        for source in {id(n.source): n.source for n in self.nodes}.values():
            for array in (source.tuples.lanes, source.weights):
                if array is not None:
                    array.watchers[:] = [w for w in array.watchers if w != self._mark_stale]

    def _mark_stale(self) -> None:
        self.stale = True

    def refresh(self) -> None:
        """Resizes what is stored by slot and by key to match tables and dictionaries, and writes the addresses."""
        for i, node in enumerate(self.nodes):
            row, room = self.table[i], node.source.capacity
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
                self.table[c, PARENT_LINKS] = links.data.ctypes.data
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
        self.heavy = bool((self.table[:, WEIGHT] != 0).any())
        self.stale = False

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
        if order.counts is not None:
            order.counts.grow(below)
            row[CHILD_COUNTS] = order.counts.data.ctypes.data
        further = order.further
        if further is None:
            return
        for column, array, room in (
            (CHILD_SECONDS, further.child, below),
            (CHILD_BEST, further.best_child, below),
            (PARENT_SECONDS, further.parent, above),
            (LIVE_BEST, further.best_parent, above),
        ):
            array.grow(room)
            row[column] = array.data.ctypes.data
