"""The guarantees of a plan in words, and what it cannot guarantee, with the reason. `claims` has the bounds as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from freshet.aggregates import function_of
from freshet.logical.query import Query, TableSchema
from freshet.plans.claims import LINEAR, ONE, CostClaim, RowCost, Tree, claim, is_monotone, keeps_order
from freshet.plans.comparisons import is_within_band
from freshet.plans.linear import is_linear
from freshet.plans.model import AnyPlan, Guarantee, QueryPlan, inputs
from freshet.query import Classification, QueryClass
from freshet.scalar.describe import describe
from freshet.scalar.expression import Expression


def described(e: Expression, query: Query) -> str:
    """An expression over a query's relations, by their aliases."""
    places = range(len(query.relations))
    return describe(e, lambda c: f"{query.relations[c.relation].alias}.{c.name}" if c.relation in places else c.name)


def guarantee(query: Query, verdict: Classification, plan: QueryPlan) -> Guarantee:
    tree = Tree(plan)

    def shown(e: Expression) -> str:
        return described(e, query)

    delay, delay_lost = _delay(query, verdict, plan, shown)
    lost = [*_lost_bounds(verdict, tree), *_lost_steps(plan, shown), *delay_lost, *_lost_state(plan)]
    return Guarantee(str(verdict.name), tree.height, update(plan), delay, tuple(lost))


# Updates ----------------------------------------------------------------------------------------------------------


def update(plan: QueryPlan) -> str:
    """The bound on the cost of a change, and the kind of change it holds for."""
    promised = claim(plan)
    words = _bound(promised)
    if promised.rows is RowCost.JOINED:
        each = "O(log n)" if promised.logarithmic else "one step"
        words += f"; plus {each} for each joined row that appears or vanishes"
    nested = list(dict(inputs(plan)).items())
    if not nested:
        return words
    tables = [name for name in promised.per if name not in dict(nested)]
    sources = [f"each change of {_listed(tables)}"] if tables else []
    sources.append(f"each row that {_listed([name for name, _ in nested])} {'change' if nested[1:] else 'changes'}")
    below = _listed([f"{name} ({_short(source)})" for name, source in nested])
    return f"{words}, for {' and '.join(sources)}; plus the updates of {below}"


def _bound(promised: CostClaim) -> str:
    every = _order(promised.every_stream, promised.logarithmic)
    if promised.every_stream == ONE:
        return f"{every} for every stream of changes"
    streams = (("insert-only", promised.insert_only), ("first-in-first-out", promised.first_in_first_out))
    better = " and ".join(name for name, bound in streams if bound == ONE)
    words = every if promised.every_stream.startswith(LINEAR) else f"{every} amortized"
    return f"{words}; {_order(ONE, promised.logarithmic)} for {better} streams" if better else words


def _order(bound: str, logarithmic: bool) -> str:
    if not logarithmic:
        return f"O({bound})"
    return "O(log n)" if bound == ONE else f"O(({bound}) log n)" if " " in bound else f"O({bound} log n)"


def _short(plan: AnyPlan) -> str:
    """The bound of an input, with the logarithms of what it reads."""
    promised = claim(plan)
    rows = " and joined rows" if promised.rows is RowCost.JOINED else ""
    return f"{_order(promised.every_stream, _has_logarithm(plan))}{rows}"


def _has_logarithm(plan: AnyPlan) -> bool:
    return claim(plan).logarithmic or any(_has_logarithm(below) for _, below in inputs(plan))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# What is lost -----------------------------------------------------------------------------------------------------


def _lost_bounds(verdict: Classification, tree: Tree) -> Iterator[str]:
    if verdict.name is QueryClass.CYCLIC:
        why = verdict.why_not[QueryClass.ACYCLIC]
        yield f"O(λ) a change and linear state: {why}; bags are stored and joined by deltas"
    promised, nodes = claim(tree.plan), tree.nodes

    def name(i: int) -> str:
        return tree.plan.relations[nodes[i].relation].alias

    if tree.wide:
        child, parent = name(tree.wide[0]), name(nodes[tree.wide[0]].parent)
        yield f"O(1) for every stream: a change of {child} may change counters of many tuples of {parent}"
    elif promised.every_stream != ONE:
        yield "O(1) for every stream: one change may add or take away many joined rows"
    loose = [c for c in tree.wide if not tree.is_keyed(c)]
    if loose and promised.first_in_first_out != ONE:
        c = tree.lowest_loose(loose[0])
        below = _listed([name(d) for d in tree.counted(c)])
        yield (
            f"O(1) for first-in-first-out streams: {name(c)} depends on {below}, and is not found by its primary key "
            f"from {name(nodes[c].parent)}"
        )
    turned = [c for c in loose if not tree.is_monotone(c)]
    if turned:
        yield f"O(1) for insert-only streams: NOT EXISTS below {name(turned[0])} lets inserts take support away again"
    for alias, source in dict(inputs(tree.plan)).items():
        streams = []
        if source in tree.deciding(with_parents=False) and not is_monotone(source):
            streams.append("insert-only")
        if source in tree.deciding(with_parents=True) and not keeps_order(source):
            streams.append("first-in-first-out")
        if streams:
            listed = " and ".join(streams)
            yield f"O(1) for {listed} streams: {alias} is a query, whose rows come and go in an order of their own"


def _lost_steps(plan: QueryPlan, shown: Callable[[Expression], str]) -> Iterator[str]:
    for node in plan.nodes:
        if node.edge is not None and node.edge.comparison is not None:
            c = node.edge.comparison
            compared = f"{shown(c.parent)} {c.operator} {shown(c.child)}"
            yield f"O(1): the edge with {compared} keeps its tuples in order, O(log n) to find a place"
            if c.counted:
                yield f"constant delay: how many tuples satisfy {compared} is counted in O(log n)"
            also = _listed([f"{shown(f.parent)} {f.operator} {shown(f.child)}" for f in c.further]) if c.further else ""
            if len(c.further) == 1:
                yield f"constant delay: tuples that also satisfy {also} are found in O(log n) each; there may be none"
            elif c.further:
                yield (
                    f"constant delay: tuples that also satisfy {also} are searched among those that satisfy {compared} "
                    "and the most selective of these, in O(log n) each; there may be none"
                )
    if plan.grouping is not None:
        costly = {f.cost: f for f in map(function_of, reversed(plan.grouping.aggregates)) if f.cost is not None}
        for f in reversed(costly.values()):
            yield f"{'O(1)' if f.logarithmic else 'linear state and O(1)'}: {f.name.upper()} {f.cost}"


def _delay(
    query: Query, verdict: Classification, plan: QueryPlan, shown: Callable[[Expression], str]
) -> tuple[str, list[str]]:
    delay, lost = "constant, for deltas and answers", []
    residual = plan.residual
    if any(n.edge is not None and n.edge.comparison is not None and n.edge.comparison.counted for n in plan.nodes):
        delay = "O(log n) for each tuple whose partners are counted, otherwise constant"
    if Tree(plan).compares_twice:
        delay = "O(log n) for each tuple whose partners are looked for; it may have none"
    if Tree(plan).searches:
        delay = (
            "O(log n) for each tuple that satisfies two comparisons of an edge; those that fail another are passed over"
        )
    if residual:
        delay = "not bounded: rows that fail a check are passed over"
        compares = [n.edge.comparison for n in plan.nodes if n.edge is not None and n.edge.comparison is not None]
        if all(any(is_within_band(p, c) for c in compares) for p in residual) and not Tree(plan).compares_twice:
            delay = "O(log n) for each tuple whose partners are looked for, in a range of the order; it may be empty"
        lost += [f"constant delay: {shown(p)} is checked on result rows" for p in residual]
        if verdict.name is QueryClass.CYCLIC_BY_PREDICATES:
            lost.append(f"constant delay: {verdict.why_not[QueryClass.ACYCLIC]}")
    if query.grouping is not None:
        return "constant for answers, read from the groups", lost
    if query.distinct and not plan.distinct_tree:
        why = verdict.why_not.get(QueryClass.FREE_CONNEX, "the tree cannot tell rows apart by itself")
        lost.append(f"constant delay and linear state: DISTINCT counts its rows, because {why}")
        return "constant for answers, read from the distinct rows; not bounded for deltas", lost
    if not plan.distinct_tree and verdict.name is QueryClass.ACYCLIC:
        why = verdict.why_not.get(QueryClass.FREE_CONNEX, "")
        lost.append(f"constant delay between different rows: {why}; duplicates are kept")
    return delay, lost


def _lost_state(plan: QueryPlan) -> Iterator[str]:
    if plan.passes:
        return  # a select that reads only one query passes its rows on
    for relation in plan.relations:
        if not isinstance(relation.source, TableSchema) and not is_linear(relation.source):
            yield f"state linear in the tables: the rows of {relation.alias} are stored as well, and may be more"
