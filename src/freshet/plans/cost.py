"""The cost of the trees of a plan: how many nodes updates visit (CROWN 6.3).

An update of a node may change counters in every node above it. So a plan costs, for each node of its trees, the node's
updates times the nodes from it up to the root; generalized nodes, which hold no tuples of their own, are left out. The
cost compares plans of one query, not plans of different queries.
"""

from __future__ import annotations

from collections.abc import Mapping

from freshet.logical.query import TableSchema
from freshet.plans.model import AnyPlan, BagPlan, QueryPlan, inputs, schemas


def walked(plan: AnyPlan, updates: Mapping[str, float]) -> float:
    """The nodes that the updates of all tables visit, in the trees of this plan and of the queries it reads."""
    total = sum(walked(below, updates) for _, below in inputs(plan))
    if isinstance(plan, QueryPlan):
        for i, node in enumerate(plan.nodes):
            if not node.generalized:
                total += source_updates(plan.relations[node.relation].source, updates) * _length(plan, i)
    return total


def source_updates(source: TableSchema | AnyPlan, updates: Mapping[str, float]) -> float:
    """Expected updates of a relation: those of its table, or of all tables that a query or bag reads. An unknown number
    counts as 1, as does a query over tables with unknown numbers only."""
    if isinstance(source, TableSchema):
        return updates.get(source.name.lower(), 1.0)
    if not updates and not isinstance(source, BagPlan):
        return 1.0
    return sum(updates.get(table.name.lower(), 1.0) for table in schemas(source))


def _length(plan: QueryPlan, node: int) -> int:
    """The number of nodes from this one up to the root."""
    length = 0
    while node >= 0:
        length += not plan.nodes[node].generalized
        node = plan.nodes[node].parent
    return length
