"""Counts copies of rows in the answer of a select, using its join tree (plans/lookups says when this is possible)."""

from __future__ import annotations

import numpy as np

from freshet.engine.counter_tree import CounterTree
from freshet.engine.sources import Generalized
from freshet.engine.table import Table
from freshet.plans.lookups import Lookups, NodeLookup
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate_filter
from freshet.scalar.expression import ColumnRef, Reference
from freshet.scalar.functions import build
from freshet.scalar.lanes import pack
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import multiplied
from freshet.state.strings import StringPool
from freshet.state.tree_table import ALIVE
from freshet.state.tuples import Slots


class Members:
    def __init__(self, tree: CounterTree, asked: Lookups, pool: StringPool) -> None:
        self.tree = tree
        self.asked = asked
        self.pool = pool
        self.checks = tuple(build(c.operator.function, (c.parent, c.child)) for c in asked.comparisons)

    def copies(self, columns: list[Column], n: int) -> Int64s:
        """For each of n rows, how many copies of it are in the answer."""
        present, factors = np.ones(n, np.bool_), []
        for a, b in self.asked.same:
            present &= self._equal([columns[a]], [columns[b]], n)
        for node in self.asked.nodes:
            there, slots = self._alive(node, columns, n)
            present &= there
            source = self.tree.nodes[node.node].source
            if source.weights is not None and source.counted and not self.tree.plan.distinct_tree:
                factors.append(np.where(there, source.weights.data[slots], 0))
        if self.checks:

            def read(c: Reference) -> Column:
                assert isinstance(c, ColumnRef)
                return columns[self.asked.known[c.relation, c.column]]

            present &= evaluate_filter(self.checks, read, n)
        return multiplied(present.astype(np.int64), factors)

    def _alive(self, node: NodeLookup, columns: list[Column], n: int) -> tuple[Bools, Slots]:
        """Which rows have an alive tuple of a node, and the slots of the tuples."""
        kept = self.tree.nodes[node.node]
        slots = self._slots(node, [columns[i] for i in node.by], n)
        there: Bools = slots >= 0
        there[there] = kept.status.data[slots[there]] >= ALIVE
        if node.others:
            relation = self.tree.plan.nodes[node.node].relation
            fields = self.tree.plan.relations[relation].fields
            read = kept.source.reader(slots[there])
            own = [read(ColumnRef(fields[c].type, relation, c, "", True)) for c, _ in node.others]
            there[there] = self._equal(own, [columns[i].take(there) for _, i in node.others], len(slots[there]))
        return there, slots

    def _slots(self, node: NodeLookup, by: list[Column], n: int) -> Slots:
        source = self.tree.nodes[node.node].source
        if isinstance(source, Generalized):
            lanes = sum(f.type.lanes for f in source.fields)
            lanes += source.null_lane >= 0  # keys that cannot be NULL have no null lane
            packed = pack(by, self.pool, n)
            return _known(source.tuples.find(np.ascontiguousarray(packed[:, :lanes])), packed[:, lanes:])
        assert isinstance(source, Table)
        packed = pack(by, self.pool, n)
        lanes = source.tuples.key_lanes if source.primary_key else packed.shape[1]
        return _known(source.tuples.find(packed), packed[:, lanes:])

    def _equal(self, some: list[Column], others: list[Column], n: int) -> Bools:
        same: Bools = (pack(some, self.pool, n) == pack(others, self.pool, n)).all(axis=1)
        return same


def _known(slots: Slots, nulls: Int64s) -> Slots:
    """The slots, except where a part of the key is NULL but cannot be."""
    slots[nulls.any(axis=1)] = -1
    return slots
