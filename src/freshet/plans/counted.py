"""Leaves of a join tree whose tuples only multiply rows: compared with their parent, and not read.

Enumerating them would repeat each row. Their sorted chain knows how many tuples compare with a parent, so that a row
has that number as a factor of its weight (IEDyn's multiplicities).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from freshet.logical.kinds import JoinKind
from freshet.logical.query import TableSchema
from freshet.plans.model import Node, QueryPlan
from freshet.scalar.expression import references


def with_counted(plan: QueryPlan) -> QueryPlan:
    if plan.distinct_tree or plan.key:
        return plan
    expressions = [*plan.residual, *plan.outputs, *plan.copies]
    if plan.grouping is not None:
        expressions += [*plan.grouping.keys, *(e for call in plan.grouping.aggregates for e in call.reads)]
    read = frozenset().union(*map(references, expressions))
    tables = Counter(r.source.name for r in plan.relations if isinstance(r.source, TableSchema))
    parents = {n.parent for n in plan.nodes}
    return replace(
        plan,
        nodes=tuple(
            _counted(n)
            if _may_be(n) and i not in parents and n.relation not in read and _is_read_once(plan, n, tables)
            else n
            for i, n in enumerate(plan.nodes)
        ),
    )


def _may_be(node: Node) -> bool:
    edge = node.edge
    if edge is None or edge.comparison is None or edge.kind is not JoinKind.INNER or not node.output:
        return False
    c = edge.comparison
    return not node.generalized and c.operator.is_order and c.band is None and c.second is None


def _is_read_once(plan: QueryPlan, node: Node, tables: Counter[str]) -> bool:
    """Whether weights of its tuples change apart from those of other nodes."""
    source = plan.relations[node.relation].source
    return not isinstance(source, TableSchema) or bool(source.primary_key) or tables[source.name] == 1


def _counted(node: Node) -> Node:
    assert node.edge is not None and node.edge.comparison is not None
    return replace(node, edge=replace(node.edge, comparison=replace(node.edge.comparison, counted=True)))
