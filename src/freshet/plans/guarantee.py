"""What a plan promises, in words, and what it cannot promise, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from freshet.aggregates import function_of
from freshet.logical.query import Query, TableSchema
from freshet.plans.model import Guarantee, Node
from freshet.query import Assertion, Classification, JoinTree
from freshet.query.classify import BY_PREDICATES
from freshet.scalar.describe import describe
from freshet.scalar.expression import Expression


def described(e: Expression, query: Query) -> str:
    """An expression over a query's relations, by their aliases."""
    places = range(len(query.relations))
    return describe(e, lambda c: f"{query.relations[c.relation].alias}.{c.name}" if c.relation in places else c.name)


def guarantee(
    query: Query,
    verdict: Classification,
    tree: JoinTree,
    residual: Sequence[Expression],
    assertions: Sequence[Assertion],
    distinct_tree: bool,
    nodes: Sequence[Node],
) -> Guarantee:
    name, lost = verdict.name, []

    def shown(e: Expression) -> str:
        return described(e, query)

    if name == "cyclic":
        update = "O(λ) amortized for each tuple of a table or bag that changes"
        lost.append(
            f"O(λ) a change and linear state: {verdict.why_not['acyclic']}; bags are stored and joined by deltas"
        )
    elif name == "foreign-key acyclic":
        update = "O(λ) amortized; O(1) for insert-only and first-in-first-out streams"
    elif tree.height == 1:
        update = "O(1) for every stream of changes"
    elif tree.height == 2:
        update = "O(λ) amortized; O(1) for insert-only and first-in-first-out streams"
    else:
        update = "O(λ) amortized; O(1) for insert-only streams"
        lost.append(
            f"O(1) for first-in-first-out streams needs a tree of height 2; the best one here has {tree.height}"
        )
    for node in nodes:
        if node.edge is not None and node.edge.comparison is not None:
            c = node.edge.comparison
            update = update.replace("O(1)", "O(log n)").replace("O(λ)", "O(λ log n)")
            compared = f"{shown(c.parent)} {c.operator} {shown(c.child)}"
            lost.append(f"O(1): the edge with {compared} keeps its tuples in order, O(log n) to find a place")
    delay = "constant, for deltas and answers"
    if residual:
        delay = "not bounded: rows that fail a check are passed over"
        compares = [n.edge.comparison for n in nodes if n.edge is not None and n.edge.comparison is not None]
        if len(residual) == sum(c.band is not None for c in compares):
            delay = "O(log n) for each tuple whose partners are looked for, in a range of the order; it may be empty"
        lost += [f"constant delay: {shown(p)} is checked on result rows" for p in residual]
        if name == BY_PREDICATES:
            lost.append(f"constant delay: {verdict.why_not['acyclic']}")
    if query.grouping is not None:
        delay = "constant for answers, read from the groups"
        costly = {f.cost: f for f in map(function_of, reversed(query.grouping.aggregates)) if f.cost is not None}
        if any(f.logarithmic for f in costly.values()):
            update = update.replace("O(1)", "O(log n)").replace("O(λ)", "O(λ log n)")
        for f in reversed(costly.values()):
            lost.append(f"{'O(1)' if f.logarithmic else 'linear state and O(1)'}: {f.name.upper()} {f.cost}")
        lost.append("an update also costs one step for each joined row it adds or takes away")
    elif query.distinct and not distinct_tree:
        delay = "constant for answers, read from the distinct rows; not bounded for deltas"
        lost.append(
            "constant delay and linear state: DISTINCT counts its rows, because "
            + verdict.why_not.get("free-connex", "the tree cannot tell rows apart by itself")
        )
    elif not distinct_tree and name == "acyclic":
        why = verdict.why_not.get("free-connex", "")
        lost.append(f"constant delay between different rows: {why}; duplicates are kept")
    nested = [r.alias for r in query.relations if not isinstance(r.source, TableSchema)]
    if len(tree.nodes) == len(query.relations) == 1 and not distinct_tree:
        nested = []  # what reads one query alone passes its rows on
    lost += [f"state linear in the tables: the rows of {alias} are stored as well" for alias in nested]
    return Guarantee(name, tree.height, update, delay, tuple(lost))
