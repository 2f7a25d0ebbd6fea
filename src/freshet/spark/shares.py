"""HyperCube shares: which attributes of a join the shards form a grid over, and how many cells each gets.

The *core* of a plan are its output nodes reached from the root by inner edges: each result holds exactly one tuple of
each. Dimensions are classes of equal key expressions of core nodes, and the identity of a core relation's row. Every
result has one value in each dimension, so exactly one cell holds all of its core tuples. Below the core (semi, anti and
left edges, and inner edges inside those) a key inherits the dimension of the parent's key it must equal and nothing
else, so wherever a parent tuple lives, every tuple that can support it lives too.

Shares minimize the rows a cell takes in: the sum over relations of size / product of the shares of its dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from freshet.errors import PlanError
from freshet.logical.kinds import JoinKind
from freshet.logical.query import TableSchema
from freshet.plans.model import QueryPlan
from freshet.scalar.describe import describe
from freshet.scalar.expression import ColumnRef, Expression, transform

_STEP = 4.0  # how much larger than a table those that refer to its primary key are taken to be, where nobody says


@dataclass(frozen=True, slots=True)
class Split:
    """Heavy values of a dimension, by their hashes: rows of `relation` with one of them are spread by `row`, those of
    other relations copied (see `heavy`)."""

    hashes: tuple[int, ...]
    relation: int
    row: tuple[Expression, ...]


@dataclass(slots=True)
class Grid:
    """`hashed[d][r]` is what relation r is hashed on in dimension d; relations not in it are copied. `core`: those of
    which every result holds a tuple. `splits`: heavy values by dimension."""

    names: list[str]
    shares: list[int]
    hashed: list[dict[int, tuple[Expression, ...]]]
    core: frozenset[int] = frozenset()
    splits: Mapping[int, Split] = field(default_factory=dict)

    def load(self, sizes: Mapping[int, float]) -> float:
        """The rows that a cell receives if values are spread evenly; sizes are by relation. There are no more values
        that join than rows of the smallest relation hashed on them."""
        dimensions = [
            (min(share, max(1.0, *(sizes[r] for r in of))), of)
            for share, of in zip(self.shares, self.hashed, strict=True)
        ]
        return sum(size / math.prod(share for share, of in dimensions if r in of) for r, size in sizes.items())


def choose_grid(plan: QueryPlan, shards: int, sizes: Mapping[int, float], used: Mapping[int, Collection[int]]) -> Grid:
    """The cheapest grid; `sizes` and `used` columns are by relation. Dimensions of share 1 are left out."""
    names, hashed = _dimensions(plan, used)
    if plan.shares:
        return _given(plan, shards, names, hashed)
    if not names or shards == 1:
        return Grid([], [], [])
    known = [
        (size, {d for d, of in enumerate(hashed) if relation in of})
        for relation, size in _estimated(plan, sizes).items()
    ]
    best = cheapest_shares(shards, len(names), known)
    kept = [d for d, share in enumerate(best) if share > 1]
    return Grid([names[d] for d in kept], [best[d] for d in kept], [hashed[d] for d in kept], _core_relations(plan))


def cheapest_shares(shards: int, dimensions: int, relations: Sequence[tuple[float, Set[int]]]) -> Sequence[int]:
    """The share of each dimension; of each relation its size and the dimensions it is hashed in are given."""

    def load(shares: Sequence[int]) -> float:
        return sum(size / math.prod(shares[d] for d in hashed) for size, hashed in relations)

    return min(_factorings(shards, dimensions), key=lambda s: (load(s), sum(x > 1 for x in s), [-x for x in s]))


def _given(plan: QueryPlan, shards: int, names: list[str], hashed: list[dict[int, tuple[Expression, ...]]]) -> Grid:
    """The grid a plan asks for."""
    cells = 1
    for name, share in plan.shares:
        if name not in names:
            raise PlanError(f"no dimension {name} to give a share to; this join has {', '.join(names) or 'none'}")
        cells *= share
    if cells > shards:
        raise PlanError(f"the shares multiply to {cells} cells, and there are {shards} shards; give as many shards")
    kept = [(name, share) for name, share in plan.shares if share > 1]
    chosen = [hashed[names.index(n)] for n, _ in kept]
    return Grid([n for n, _ in kept], [s for _, s in kept], chosen, _core_relations(plan))


def covers(grid: Grid, expressions: Sequence[Expression]) -> bool:
    """Whether rows with equal values of the expressions always come from one cell. Where a relation has no tuple in a
    row, its columns are NULL, and say nothing of the cell."""
    given = {normal(e) for e in expressions}
    return not grid.splits and all(
        any(all(normal(e) in given for e in of) for r, of in hashed.items() if of and r in grid.core)
        for hashed in grid.hashed
    )


def normal(expression: Expression) -> Expression:
    """The expression without what does not change its value."""
    return transform(expression, lambda x: replace(x, name="", nullable=True) if isinstance(x, ColumnRef) else x)


# Dimensions -----------------------------------------------------------------------------------------------------


def _dimensions(
    plan: QueryPlan, used: Mapping[int, Collection[int]]
) -> tuple[list[str], list[dict[int, tuple[Expression, ...]]]]:
    core = _core(plan)
    classes: dict[tuple[int, Expression], int] = {}
    members: list[list[tuple[int, Expression]]] = []

    def number(relation: int, expression: Expression) -> int:
        key = (relation, normal(expression))
        if key not in classes:
            classes[key] = len(members)
            members.append([(relation, expression)])
        return classes[key]

    def merge(a: int, b: int) -> None:
        if a == b:
            return
        for relation, expression in members[b]:
            classes[relation, normal(expression)] = a
        members[a] += members[b]
        members[b] = []

    for i, node in enumerate(plan.nodes):
        for above, below in _key_pairs(plan, i):
            if node.parent not in core:
                continue
            a = number(plan.nodes[node.parent].relation, above)
            if i in core:
                merge(a, number(node.relation, below))
    names, hashed = [], []
    stored = {n.relation for n in plan.nodes if not n.generalized}
    for group in members:
        of = _reach(plan, core, group)
        if of.keys() & stored:
            names.append(" = ".join(dict.fromkeys(describe(e) for _, e in group)))
            hashed.append({r: e for r, e in of.items() if r in stored})
    for i in sorted(core):
        node = plan.nodes[i]
        if not node.generalized:
            columns = identity(plan, node.relation, used[node.relation])
            if columns:
                names.append(f"row of {plan.relations[node.relation].alias}")
                hashed.append({node.relation: columns})
    return names, hashed


def identity(plan: QueryPlan, relation: int, used: Collection[int]) -> tuple[Expression, ...]:
    """What a relation's row is known by: its primary key, or all that is read of it."""
    source, fields = plan.relations[relation].source, plan.relations[relation].fields
    key = source.primary_key if isinstance(source, TableSchema) else ()
    return tuple(
        ColumnRef(fields[c].type, relation, c, fields[c].name, fields[c].nullable) for c in (key or sorted(used))
    )


def _core(plan: QueryPlan) -> set[int]:
    core: set[int] = set()
    for i, node in enumerate(plan.nodes):
        inner = node.edge is None or (node.edge.kind is JoinKind.INNER and node.parent in core)
        if inner and node.output:
            core.add(i)
    return core


def _core_relations(plan: QueryPlan) -> frozenset[int]:
    return frozenset(plan.nodes[i].relation for i in _core(plan))


def _key_pairs(plan: QueryPlan, i: int) -> list[tuple[Expression, Expression]]:
    node = plan.nodes[i]
    if node.edge is None:
        return []
    parent = plan.nodes[node.parent]
    above = node.edge.parent_key
    if parent.generalized:
        fields = plan.relations[parent.relation].fields
        above = tuple(ColumnRef(f.type, parent.relation, c, f.name, f.nullable) for c, f in enumerate(fields))
    return list(zip(above, node.edge.child_key, strict=True))


def _reach(
    plan: QueryPlan, core: set[int], group: Sequence[tuple[int, Expression]]
) -> dict[int, tuple[Expression, ...]]:
    """What each relation is hashed on for a dimension: the group's members, then down every edge out of the core."""
    found: dict[int, Expression] = {}
    for relation, expression in group:
        found.setdefault(relation, expression)
    reads = {(r, normal(e)) for r, e in group}
    for i, node in enumerate(plan.nodes):
        if i in core or node.edge is None:
            continue
        for above, below in _key_pairs(plan, i):
            if (plan.nodes[node.parent].relation, normal(above)) in reads:
                reads.add((node.relation, normal(below)))
                found.setdefault(node.relation, below)
    return {r: (e,) for r, e in found.items()}


# Sizes ----------------------------------------------------------------------------------------------------------


def _estimated(plan: QueryPlan, sizes: Mapping[int, float]) -> dict[int, float]:
    """Rows of each relation. Where unknown: larger than what it refers to by a foreign key, declared or seen in a join
    with another's whole primary key."""
    known = {n.relation: sizes.get(n.relation, 1.0) for n in plan.nodes if not n.generalized}
    sources = {r: plan.relations[r].source for r in known}
    for _ in plan.nodes:
        for r, s in ((r, s) for r, s in sources.items() if isinstance(s, TableSchema) and r not in sizes):
            referred = {k.table.lower() for k in s.foreign_keys}
            for other, to in sources.items():
                if isinstance(to, TableSchema) and to.name.lower() in referred:
                    known[r] = max(known[r], _STEP * known[other])
        for i, node in enumerate(plan.nodes):
            if node.edge is None or node.generalized or plan.nodes[node.parent].generalized:
                continue
            pairs, above = _key_pairs(plan, i), plan.nodes[node.parent].relation
            below = node.relation
            unique_above = _is_key(plan, above, [a for a, _ in pairs])
            unique_below = _is_key(plan, below, [b for _, b in pairs])
            if unique_below and not unique_above and above not in sizes:
                known[above] = max(known[above], _STEP * known[below])
            if unique_above and not unique_below and below not in sizes:
                known[below] = max(known[below], _STEP * known[above])
    return known


def _is_key(plan: QueryPlan, relation: int, expressions: Sequence[Expression]) -> bool:
    source = plan.relations[relation].source
    columns = {e.column for e in expressions if isinstance(e, ColumnRef)}
    return isinstance(source, TableSchema) and bool(source.primary_key) and set(source.primary_key) <= columns


def _factorings(number: int, places: int) -> Iterator[tuple[int, ...]]:
    if places == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for rest in _factorings(number // first, places - 1):
                yield (first, *rest)
