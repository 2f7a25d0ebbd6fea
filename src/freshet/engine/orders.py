"""Orders of enumeration: the sequence of nodes, computed once for each node at which results can start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from freshet.plans.model import QueryPlan
from freshet.scalar.expression import ColumnRef
from freshet.state.arrays import Int64s
from freshet.state.enumeration import COUNTED, DIRECTION, DOWN, NULL, SOURCE, UP
from freshet.state.tuples import Slots

#: Result rows enumerated at a time: enough to keep kernels busy, few enough to fit in the cache.
CHUNK = 16_384


@dataclass(slots=True)
class Buffers:
    """Scratch of one enumeration: slots and weights of a chunk, and the odometer."""

    slots: Slots
    weights: Int64s
    cursor: Slots
    partial: Int64s

    @classmethod
    def make(cls, rows: int, width: int) -> Buffers:
        slots, weights = np.empty((rows, width), np.int32), np.empty(rows, np.int64)
        return cls(slots, weights, np.empty(width, np.int32), np.empty(width, np.int64))


@dataclass(slots=True)
class Order:
    node: int
    steps: Int64s  # state/enumeration: node, position it is reached from, direction
    wanted: Int64s  # state/enumeration.gather
    buffers: Buffers

    @property
    def enumerated(self) -> Int64s:
        """The steps, without counting: rows are repeated instead of multiplied."""
        steps = self.steps.copy()
        steps[steps[:, DIRECTION] == COUNTED, DIRECTION] = DOWN
        return steps

    @property
    def width(self) -> int:
        return len(self.steps)


def make_order(
    plan: QueryPlan,
    start: int,
    wanted: Sequence[ColumnRef],
    lane: Callable[[ColumnRef], tuple[int, int, int]],
    missing: int | None = None,
) -> Order:
    """First up to the root, then down into all other nodes. `missing` is the child of a left edge forced to NULLs."""
    nodes = plan.nodes
    steps, position = [(start, 0, SOURCE)], {start: 0}
    at = start
    while nodes[at].parent >= 0:
        parent = nodes[at].parent
        position[parent] = len(steps)
        steps.append((parent, position[at], UP))
        at = parent
    # Preorder: a parent always precedes its children.
    for i, node in enumerate(nodes):
        if i not in position and node.output:
            position[i] = len(steps)
            counted = node.edge is not None and node.edge.comparison is not None and node.edge.comparison.counted
            steps.append((i, position[node.parent], NULL if i == missing else COUNTED if counted else DOWN))
    node_of = {n.relation: i for i, n in enumerate(nodes)}
    columns = []
    for c in wanted:
        first, null_lane, bit = lane(c)
        columns.append((position[node_of[c.relation]], first, c.type.lanes, null_lane, bit))
    return Order(
        start,
        np.array(steps, np.int64),
        np.array(columns, np.int64).reshape(-1, 5),
        Buffers.make(CHUNK, len(steps)),
    )
