"""The rows of a join, enumerated along its tree of counters, or counted without enumerating them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from freshet.budget import look
from freshet.engine.counter_tree import CounterTree
from freshet.engine.orders import CHUNK, Buffers, Order
from freshet.errors import EvaluationError
from freshet.logical.kinds import JoinKind
from freshet.scalar.lanes import width
from freshet.scalar.types import Type
from freshet.state.arrays import Int64s
from freshet.state.enumeration import DONE, MOST_COPIES, NODE, enumerate_rows, gather
from freshet.state.rows import TOO_MANY_COPIES, Rows
from freshet.state.tree_table import ALIVE
from freshet.state.tuples import Slots

_SPAN = 1 << 16  # slots looked through at a time, at least


class JoinResults:
    """`types`: of the columns that results are made of."""

    def __init__(self, tree: CounterTree, types: list[Type]) -> None:
        self.tree, self.plan = tree, tree.plan
        self.width, self.nulls = width(types), sum(t.lanes for t in types)
        self.counted = {i for i, order in tree.ordered.items() if order.counts is not None}
        self._ones, self._minus = np.ones(CHUNK, np.int64), np.full(CHUNK, -1, np.int64)

    def rows(self, order: Order, tuples: Slots, weights: Int64s, buffers: Buffers) -> Iterator[Rows]:
        """The results that tuples of the order's first node are part of, a chunk at a time."""
        progress, much = np.zeros(3, np.int64), self._weighs_much()
        steps = order.enumerated if much else order.steps
        while not progress[DONE]:
            if self.tree.stale:  # an answer may be read with pauses
                self.tree.refresh()
            look()
            n = enumerate_rows(
                self.tree.at, steps, tuples, weights, buffers.cursor, buffers.partial, progress, buffers.slots,
                buffers.weights,
            )  # fmt: skip
            if n:
                if much:
                    self.check_weights(order, tuples, weights, buffers.slots[:n])
                lanes = np.empty((n, self.width), np.int64)
                gather(self.tree.at, order.steps, buffers.slots, n, order.wanted, self.nulls, lanes)
                yield Rows(lanes, buffers.weights[:n].copy())

    def _weighs_much(self) -> bool:
        """Whether weights of some result might multiply to more than 64 bits."""
        if not self.tree.heavy and not self.counted:
            return False
        sizes = (n.source.tuples.used if i in self.counted else 1.0 for i, n in enumerate(self.tree.nodes))
        return prod(float(n.source.heaviest) * s for n, s in zip(self.tree.nodes, sizes, strict=True)) > MOST_COPIES

    def check_weights(self, order: Order, tuples: Slots, weights: Int64s, slots: Slots) -> None:
        """Raises an error if the weight of some result, the product of its tuples' weights, does not fit 64 bits."""
        sizes = np.zeros(int(tuples.max()) + 1)
        sizes[tuples] = np.abs(weights)
        about = sizes[slots[:, 0]]
        for place, node in enumerate(order.steps[:, NODE]):
            stored = self.tree.nodes[node].source.weights
            if place and stored is not None:
                about *= np.where(slots[:, place] >= 0, stored.data[slots[:, place]], 1)
        if (about > MOST_COPIES).any():
            raise EvaluationError(TOO_MANY_COPIES)

    def weights_of(self, node: int, tuples: Slots, sign: int) -> Int64s:
        """How many copies of its tuples a node has, with a sign."""
        source = self.tree.nodes[node].source
        if source.weights is None or not source.counted or self.plan.distinct_tree:
            if len(tuples) > len(self._ones):
                self._ones = np.ones(2 * len(tuples), np.int64)
                self._minus = -self._ones
            return (self._ones if sign > 0 else self._minus)[: len(tuples)]
        return source.weights.data[tuples] * sign

    def answer(self, order: Order, rows: int) -> Iterator[Rows]:
        """All results, `rows` at a time, from the root's alive tuples, along an order that starts there."""
        if self.tree.stale:
            self.tree.refresh()
        buffers = Buffers.make(rows, order.width)
        for tuples, weights in self.alive(1 << 20):
            yield from self.rows(order, tuples, weights, buffers)

    def alive(self, rows: int) -> Iterator[tuple[Slots, Int64s]]:
        """The alive tuples of the root and their weights, at most `rows` at a time."""
        root, span = self.tree.nodes[0], max(rows, _SPAN)
        for start in range(0, root.source.tuples.used, span):
            look()
            part = root.status.data[start : min(start + span, root.source.tuples.used)]
            alive = (np.flatnonzero(part >= ALIVE) + start).astype(np.int32)
            for first in range(0, len(alive), rows):
                tuples = alive[first : first + rows]
                yield tuples, self.weights_of(0, tuples, 1)

    def count(self, order: Order) -> int:
        """The number of results, added up from the leaves instead of enumerated: in 64 bits if a computation in doubles
        alongside shows that they suffice, otherwise in Python integers."""
        if any(self.plan.nodes[i].output for i in self.tree.ordered):  # the number of matching tuples is not stored
            return sum(int(rows.weights.sum()) for rows in self.answer(order, CHUNK))
        about = self._total(np.float64)
        return int(about) if about == 0 else int(self._total(np.int64 if about < 2.0**62 else object))

    def _total(self, kind: Any) -> Any:
        """The sum of all results' weights, in numbers of the given kind."""
        totals: dict[int, Any] = {}
        for i in range(len(self.tree.nodes) - 1, -1, -1):
            node = self.tree.nodes[i]
            if not self.plan.nodes[i].output:
                continue
            slots = np.flatnonzero(node.status.data[: node.source.tuples.used] >= ALIVE).astype(np.int32)
            counts = self.weights_of(i, slots, 1).astype(kind)
            for c, child in enumerate(self.plan.nodes):
                edge = self.tree.edges[c]
                if child.parent != i or not child.output or edge is None or child.edge is None:
                    continue
                keys = slots if edge.parent is None else edge.parent.ids.data[slots]
                below = np.where(keys >= 0, totals[c][np.maximum(keys, 0)], 0)
                counts = counts * (np.maximum(below, 1) if child.edge.kind is JoinKind.LEFT else below)
            edge = self.tree.edges[i]
            if edge is None:
                return counts.sum() if len(counts) else 0
            keys = edge.child.ids.data[slots]
            totals[i] = np.zeros(edge.dictionary.capacity, kind)
            np.add.at(totals[i], keys[keys >= 0], counts[keys >= 0])
        return 0
