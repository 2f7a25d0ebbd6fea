"""The columns that a select reads from its join, and what its output determines."""

from __future__ import annotations

from freshet.logical.kinds import JoinKind
from freshet.logical.query import TableSchema
from freshet.plans.model import QueryPlan
from freshet.scalar.expression import ColumnRef, Expression, walk


def distinguishes_tuples(plan: QueryPlan) -> bool:
    """Whether a result row contains every column of every tuple it was joined from. Then, because deletions come first
    in a transaction, no row can both appear and disappear, and the delta needs no consolidation (unless weights
    change)."""
    shown = {(o.relation, o.column) for o in plan.outputs if isinstance(o, ColumnRef)}
    for node in plan.nodes:
        edge = node.edge
        if edge is not None and (edge.kind is not JoinKind.INNER or (edge.condition and edge.comparison is None)):
            return False
        if edge is not None and not plan.nodes[node.parent].generalized:
            for ours, theirs in zip(edge.child_key, edge.parent_key, strict=True):
                if isinstance(ours, ColumnRef) and isinstance(theirs, ColumnRef):
                    if {(ours.relation, ours.column), (theirs.relation, theirs.column)} & shown:
                        shown |= {(ours.relation, ours.column), (theirs.relation, theirs.column)}
    for g, node in enumerate(plan.nodes):
        if node.generalized:
            children = [n.edge.child_key for n in plan.nodes if n.parent == g and n.edge is not None]
            for same in zip(*children, strict=True):
                columns = {(e.relation, e.column) for e in same if isinstance(e, ColumnRef)}
                if columns & shown:
                    shown |= columns
    return all(
        isinstance(plan.relations[n.relation].source, TableSchema)
        and all((n.relation, i) in shown for i in range(len(plan.relations[n.relation].fields)))
        for n in plan.nodes
        if not n.generalized
    )


def wanted_columns(plan: QueryPlan) -> list[ColumnRef]:
    """The columns that the join must produce; the outputs themselves if all are plain columns."""
    grouping = plan.grouping
    if grouping is None and not plan.residual and not plan.copies:
        plain = [o for o in plan.outputs if isinstance(o, ColumnRef)]
        if len(plain) == len(plan.outputs):
            return plain
    every = (e for x in (*evaluated(plan), *plan.copies) for e in walk(x))
    read = {(e.relation, e.column): e for e in every if isinstance(e, ColumnRef)}
    return list(read.values())


def evaluated(plan: QueryPlan) -> list[Expression]:
    """The expressions computed from join results."""
    grouping = plan.grouping
    if grouping is None:
        return [*plan.residual, *plan.outputs]
    return [*plan.residual, *grouping.keys, *(e for call in grouping.aggregates for e in call.reads)]
