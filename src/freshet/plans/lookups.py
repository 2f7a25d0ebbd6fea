"""Plans in whose answer rows can be looked up, with their number of copies, without storing it.

A joined row is one tuple of each output node. If the outputs have all that identifies these tuples, the row is in the
answer exactly if each of them is found and alive, and they join: alive implies that the nodes below join as well. Then
equal rows are the same tuples, so the number of copies is the product of those of the tuples (IEDyn's multiplicities).
Outputs that are computed, conditions and numbers of copies are functions of the tuples that were found.

A row of groups that shows all keys is found by them, and is in the answer exactly if the finished values agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from freshet.logical.kinds import JoinKind
from freshet.logical.query import TableSchema
from freshet.plans.model import AnyPlan, Comparison, LookedUpPlan, QueryPlan
from freshet.scalar.expression import ColumnRef, Expression, GroupRef, walk

Place = tuple[int, int]  # a relation and a column of it


@dataclass(frozen=True, slots=True)
class NodeLookup:
    """How the tuple of an output node is found: by these outputs, which are its columns `identity`; the other columns
    that outputs contain must agree. `groups`: the identity is the keys of groups of a nested query, in their order."""

    node: int
    identity: tuple[int, ...]
    by: tuple[int, ...]
    others: tuple[tuple[int, int], ...]  # column, output
    groups: bool = False


@dataclass(frozen=True, slots=True)
class Lookups:
    """`same`: outputs that must be equal. `comparisons`: comparisons of columns that outputs contain, according to
    `known`. `computed`: outputs that are computed from the tuples."""

    nodes: tuple[NodeLookup, ...]
    same: tuple[tuple[int, int], ...]
    comparisons: tuple[Comparison, ...]
    known: dict[Place, int]
    computed: tuple[int, ...]


def is_looked_up(plan: AnyPlan, every: bool) -> bool:
    """`every`: whether the answer may have several copies of a row; otherwise it must be a set."""
    if isinstance(plan, LookedUpPlan):
        return every or not plan.all
    if not isinstance(plan, QueryPlan):
        return False
    is_set = plan.grouping is not None or plan.distinct_tree or bool(plan.key)
    return (is_set or every) and (shows_groups(plan) or lookups(plan) is not None)


def shows_groups(plan: AnyPlan) -> bool:
    """Whether its rows are stored groups that can be found by their keys, all of which are outputs."""
    if not isinstance(plan, QueryPlan) or plan.grouping is None or plan.distinct or not plan.grouping.keys:
        return False
    shown = {o.column for o in plan.outputs if isinstance(o, GroupRef)}
    return shown.issuperset(range(len(plan.grouping.keys))) and not any(k.type.is_fraction for k in plan.grouping.keys)


def lookups(plan: QueryPlan) -> Lookups | None:
    """How its joined rows are looked up; None if the outputs do not identify all tuples of them."""
    if plan.grouping is not None or plan.distinct or plan.passes or not plan.nodes:
        return None
    classes = _classes(plan)
    if classes is None:
        return None
    known: dict[Place, int] = {}
    same: list[tuple[int, int]] = []
    computed: list[int] = []
    for i, o in enumerate(plan.outputs):
        if not isinstance(o, ColumnRef) or o.type.is_fraction:  # equal doubles may differ in their bits
            computed.append(i)
            continue
        place = (o.relation, o.column)
        members = classes.get(place, {place})
        first = known.get(place, i)
        if first != i:
            same.append((first, i))
        known.update(dict.fromkeys(members, first))
    if not classes.keys() <= known.keys():
        return None  # nothing would check that tuples join by columns that outputs do not have
    edges = [n.edge.comparison for n in plan.nodes if n.output and n.edge is not None]
    if any(edge is not None and edge.counted for edge in edges):
        return None
    compared = [c for edge in edges if edge is not None for c in (edge, *edge.further)]
    if not all(p in known for c in compared for p in _places(c)):
        return None
    found = [_lookup(plan, i, known) for i, n in enumerate(plan.nodes) if n.output]
    nodes = tuple(f for f in found if f is not None)
    if len(nodes) < len(found):
        return None
    return Lookups(nodes, tuple(same), tuple(compared), known, tuple(computed))


def _lookup(plan: QueryPlan, i: int, known: dict[Place, int]) -> NodeLookup | None:
    relation = plan.nodes[i].relation
    read = plan.relations[relation]
    every = tuple(range(len(read.fields)))
    table = isinstance(read.source, TableSchema) and not plan.nodes[i].generalized
    identity = (read.source.primary_key if table and isinstance(read.source, TableSchema) else ()) or every
    groups = any((relation, c) not in known for c in identity)
    if groups:
        if not isinstance(read.source, QueryPlan) or not shows_groups(read.source):
            return None
        identity = _keys(read.source)
        if any((relation, c) not in known for c in identity):
            return None
    others = tuple((c, known[relation, c]) for c in every if c not in identity and (relation, c) in known)
    return NodeLookup(i, identity, tuple(known[relation, c] for c in identity), others, groups)


def _keys(plan: QueryPlan) -> tuple[int, ...]:
    """The outputs that are the keys of its groups, in their order."""
    assert plan.grouping is not None
    places = {o.column: i for i, o in reversed([*enumerate(plan.outputs)]) if isinstance(o, GroupRef)}
    return tuple(places[k] for k in range(len(plan.grouping.keys)))


def _places(comparison: Comparison) -> Iterator[Place]:
    for e in (comparison.parent, comparison.child):
        yield from ((c.relation, c.column) for c in walk(e) if isinstance(c, ColumnRef))


def _classes(plan: QueryPlan) -> dict[Place, set[Place]] | None:
    """The columns that edges between output nodes make equal; None if an edge tests anything but plain columns, or if
    some row has no tuple of an output node."""
    classes: dict[Place, set[Place]] = {}
    for node in plan.nodes:
        edge = node.edge
        if node.assertions:
            return None
        if edge is None or not node.output:
            continue
        if edge.kind is not JoinKind.INNER or (edge.condition and edge.comparison is None):
            return None
        parent = plan.nodes[node.parent]
        for at, ours in enumerate(edge.child_key):
            theirs: Place | None = (parent.relation, at)
            if not parent.generalized:
                theirs = _place(edge.parent_key[at])
            here = _place(ours)
            if here is None or theirs is None:
                return None
            both = classes.get(here, {here}) | classes.get(theirs, {theirs})
            classes.update(dict.fromkeys(both, both))
    return classes


def _place(e: Expression) -> Place | None:
    return (e.relation, e.column) if isinstance(e, ColumnRef) else None
