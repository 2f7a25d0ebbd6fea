"""Counts copies of rows in the answer of a select, using its join tree (plans/lookups says when this is possible)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from freshet.engine.counter_tree import CounterTree
from freshet.engine.maintained import Maintained
from freshet.engine.sources import Generalized, Source
from freshet.engine.table import Table
from freshet.plans.lookups import Lookups, NodeLookup
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, evaluate_filter
from freshet.scalar.expression import ColumnRef, Reference
from freshet.scalar.functions import build
from freshet.scalar.lanes import pack
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import multiplied
from freshet.state.strings import StringPool
from freshet.state.tree_table import ALIVE
from freshet.state.tuples import Slots


class Members:
    """`nested`: the nested queries of the select, by relation."""

    def __init__(self, tree: CounterTree, asked: Lookups, nested: Mapping[int, Maintained], pool: StringPool) -> None:
        self.tree, self.asked, self.nested, self.pool = tree, asked, nested, pool
        self.checks = tuple(build(c.operator.function, (c.parent, c.child)) for c in asked.comparisons)

    def copies(self, columns: list[Column], n: int) -> Int64s:
        """For each of n rows, how many copies of it are in the answer."""
        present, factors, found = np.ones(n, np.bool_), [], dict[int, Slots]()
        for a, b in self.asked.same:
            present &= self._equal([columns[a]], [columns[b]], n)
        for node in self.asked.nodes:
            there, slots = self._alive(node, columns, n)
            present &= there
            found[self.tree.plan.nodes[node.node].relation] = slots
            source = self.tree.nodes[node.node].source
            if source.weights is not None and source.counted and not self.tree.plan.distinct_tree:
                factors.append(np.where(there, source.weights.data[slots], 0))
        if self.checks:

            def read(c: Reference) -> Column:
                assert isinstance(c, ColumnRef)
                return columns[self.asked.known[c.relation, c.column]]

            present &= evaluate_filter(self.checks, read, n)
        copies = multiplied(present.astype(np.int64), factors)
        plan = self.tree.plan
        return self._computed(columns, copies, found) if self.asked.computed or plan.residual or plan.copies else copies

    def _computed(self, columns: list[Column], copies: Int64s, found: Mapping[int, Slots]) -> Int64s:
        """The copies of rows, of which `copies` tuples join: those of the rows whose computed outputs are theirs."""
        plan, at = self.tree.plan, np.flatnonzero(copies)
        sources = {plan.nodes[n.node].relation: self.tree.nodes[n.node].source for n in self.asked.nodes}
        if plan.residual:
            at = at[evaluate_filter(plan.residual, _reader(sources, found, at), len(at))]
        read, n = _reader(sources, found, at), len(at)
        same = np.ones(n, np.bool_)
        for i in self.asked.computed:
            same &= self._equal([evaluate(plan.outputs[i], read, n)], [columns[i].take(at)], n)
        weights = multiplied(copies[at], [read(c).data for c in plan.copies])
        copies[:] = 0
        copies[at[same]] = weights[same]
        return copies

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
        if node.groups:
            at, rows = self.nested[self.tree.plan.nodes[node.node].relation].among(by, n)
            slots = np.full(n, -1, np.int32)
            slots[at] = source.tuples.find(pack(rows, self.pool, len(at)))
            return slots
        packed = pack(by, self.pool, n)
        lanes = source.tuples.key_lanes if source.primary_key else packed.shape[1]
        return _known(source.tuples.find(packed), packed[:, lanes:])

    def _equal(self, some: list[Column], others: list[Column], n: int) -> Bools:
        same: Bools = (pack(some, self.pool, n) == pack(others, self.pool, n)).all(axis=1)
        return same


def _reader(
    sources: Mapping[int, Source], found: Mapping[int, Slots], at: npt.NDArray[np.intp]
) -> Callable[[Reference], Column]:
    """Columns of the tuples that were found for some rows."""
    readers = {relation: source.reader(found[relation][at]) for relation, source in sources.items()}

    def read(c: Reference) -> Column:
        assert isinstance(c, ColumnRef)
        return readers[c.relation](c)

    return read


def _known(slots: Slots, nulls: Int64s) -> Slots:
    """The slots, except where a part of the key is NULL but cannot be."""
    slots[nulls.any(axis=1)] = -1
    return slots
