"""Cuts: a join as parts on several levels, each partitioned by its own join key, instead of copies of its tables.

A cut divides a join tree at one edge. One side becomes a *part*, a nested join on a level below; its rows are shuffled
by the key of the edge, and the other side stores them as one relation.

Law: a part has a *trunk*, from which every other relation of the part whose columns are read is reached by a whole
primary key. So it never has more rows than its trunk has, and a row of it appears or vanishes only if a row of the
trunk does, or the row that a key of it refers to: state stays linear in the tables, and the bound of an update holds.
Without such keys a part could hold a join of any size, and the tree is not cut there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from freshet.logical.attributes import equality
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Field, TableSchema
from freshet.plans.expressions import map_expressions
from freshet.plans.model import Edge, Guarantee, Node, QueryPlan, RelationPlan
from freshet.scalar.expression import ColumnRef, Expression, references, transform, walk
from freshet.scalar.functions import build

#: A level costs every micro-batch what many rows do: each cut must save this part of the rows of the busiest shard.
SAVED = 0.1

_PART = Guarantee("part of a join", 0, "that of the join", "that of the join")


class Strategy(Enum):
    """How joins are spread: with the least expected load, by HyperCube alone, or by cuts wherever they are sound."""

    CHEAPEST = "cheapest"
    HYPERCUBE = "HyperCube"
    LEVELS = "levels"


@dataclass(frozen=True, slots=True)
class CutPlan:
    """A plan with its cuts, the rows its busiest shard is expected to receive, and those without any cut."""

    plan: QueryPlan
    rows: float
    uncut: float


def is_part(plan: object) -> bool:
    return isinstance(plan, QueryPlan) and plan.guarantee == _PART


def choose_cuts(plan: QueryPlan, layout: Strategy, load: Callable[[QueryPlan], float]) -> CutPlan:
    """`load`: the expected rows of the busiest shard of one select, without what is nested in it."""
    known: dict[int, tuple[QueryPlan, float]] = {}

    def whole(each: QueryPlan) -> float:
        if id(each) not in known:
            below = sum(
                whole(r.source) for r in each.relations if is_part(r.source) and isinstance(r.source, QueryPlan)
            )
            known[id(each)] = each, load(each) + below  # kept, so that its identity stays its own
        return known[id(each)][1]

    uncut = whole(plan)
    found, rows = plan, uncut
    while layout is not Strategy.HYPERCUBE:
        made = min(_with_one_more(found), key=whole, default=None)
        if made is None or (layout is Strategy.CHEAPEST and whole(made) > (1 - SAVED) * rows):
            break
        found, rows = made, whole(made)
    return CutPlan(found, rows, uncut)


def trunk(plan: QueryPlan) -> int | None:
    """A relation of which each joined row has one tuple that no other joined row has."""
    shown = [i for i, n in enumerate(plan.nodes) if n.output]
    for i in (i for i in shown if not plan.nodes[i].generalized):
        reached, waiting = {i}, [i]
        while waiting:
            at = waiting.pop()
            near = [j for j in shown if j not in reached and _finds_one(plan, at, j)]
            reached |= {*near}
            waiting += near
        if len(reached) == len(shown):
            return plan.nodes[i].relation
    return None


def rows_of(plan: QueryPlan, sizes: Mapping[str, float]) -> dict[int, float]:
    """The rows of each relation, as far as known: of a table by its name, of a part those of its trunk."""
    found = {}
    for i, relation in enumerate(plan.relations):
        source: object = relation.source
        while isinstance(source, QueryPlan) and is_part(source):
            at = trunk(source)
            assert at is not None, "a part has a trunk"
            source = source.relations[at].source
        if isinstance(source, TableSchema) and source.name.lower() in sizes:
            found[i] = sizes[source.name.lower()]
    return found


def trunk_name(plan: QueryPlan) -> str:
    """The table of which a part has at most a row for each row."""
    at = trunk(plan)
    assert at is not None, "a part has a trunk"
    source = plan.relations[at].source
    return trunk_name(source) if isinstance(source, QueryPlan) else plan.relations[at].alias


# Cutting --------------------------------------------------------------------------------------------------------


def _with_one_more(plan: QueryPlan) -> Iterator[QueryPlan]:
    """The plan with one more cut, of itself or of one of its parts."""
    for i, relation in enumerate(plan.relations):
        if isinstance(relation.source, QueryPlan) and is_part(relation.source):
            for made in _with_one_more(relation.source):
                relations = list(plan.relations)
                relations[i] = replace(relation, source=made)
                yield replace(plan, relations=tuple(relations))
    if plan.distinct_tree or plan.copies or plan.key or plan.shares:
        return
    plan = _without_assertions(plan)
    for child in range(1, len(plan.nodes)):
        edge = plan.nodes[child].edge
        assert edge is not None
        if edge.kind in (JoinKind.INNER, JoinKind.SEMI) and edge.comparison is None and not edge.condition:
            below = _below(plan, child)
            above = [i for i in range(len(plan.nodes)) if i not in below]
            # An arm may be as a whole what has to exist, or not to exist: it is not divided between two selects.
            for side in (below, above) if plan.nodes[plan.nodes[child].parent].output else (below,):
                found = _cut(plan, child, side)
                if found is not None and not (is_part(plan) and trunk(found) is None):
                    yield found


def _below(plan: QueryPlan, child: int) -> list[int]:
    found = [child]
    for i in range(child + 1, len(plan.nodes)):
        if plan.nodes[i].parent in found:
            found.append(i)
    return found


def _without_assertions(plan: QueryPlan) -> QueryPlan:
    """Assertions as conditions on joined rows: their paths follow keys, so that each joined row stays one."""
    nodes, residual = list(plan.nodes), list(plan.residual)
    for node in plan.nodes:
        for a in node.assertions:
            residual.append(build("eq", (a.left_value, a.right_value)))
            for i in (*a.left, *a.right):
                edge = nodes[i].edge
                assert edge is not None
                nodes[i] = replace(nodes[i], output=True, edge=replace(edge, kind=JoinKind.INNER))
    return replace(plan, nodes=tuple(replace(n, assertions=()) for n in nodes), residual=tuple(residual))


def _cut(plan: QueryPlan, child: int, side: list[int]) -> QueryPlan | None:
    """The plan with the nodes of one side of an edge as a part; None if they are not one."""
    rest = [i for i in range(len(plan.nodes)) if i not in side]
    if any(sum(not plan.nodes[i].generalized for i in own) < least for own, least in ((side, 2), (rest, 1))):
        return None
    nodes = {i: plan.nodes[i] for i in side}
    if any((n.edge is not None and n.edge.kind is JoinKind.LEFT) or n.assertions for n in nodes.values()):
        return None
    nodes[side[0]] = replace(nodes[side[0]], parent=-1, edge=None)
    if not nodes[side[0]].output:
        nodes = _shown(nodes, side[0])
    own = {n.relation for n in nodes.values()}
    inside = tuple(p for p in plan.residual if references(p) and references(p) <= own)
    if any(r not in {nodes[i].relation for i in side if nodes[i].output} for p in inside for r in references(p)):
        return None
    plan = replace(plan, residual=tuple(p for p in plan.residual if p not in inside))
    if side[0] == 0:
        plan = _with_explicit_key(plan, child)
    read = _read_of(plan, rest, own, child)
    if any(c.relation not in {n.relation for n in nodes.values() if n.output} for c in read):
        return None
    part = _part(plan, nodes, read, inside)
    if trunk(part) is None:
        return None
    return _reader(plan, child, side, part, read)


def _shown(nodes: dict[int, Node], root: int) -> dict[int, Node]:
    """The nodes of an arm as a select of their own: its root is shown, and the nodes below it only have to exist."""
    made = dict(nodes)
    made[root] = replace(nodes[root], output=True)
    for i, n in nodes.items():
        if n.parent == root and n.edge is not None and n.edge.kind is JoinKind.INNER:
            made[i] = replace(n, edge=replace(n.edge, kind=JoinKind.SEMI))
    return made


def _with_explicit_key(plan: QueryPlan, child: int) -> QueryPlan:
    """Under a generalized parent the key is the parent's tuple; once that is a relation's column, it is written."""
    node = plan.nodes[child]
    parent = plan.nodes[node.parent]
    if not parent.generalized or node.edge is None:
        return plan
    fields = plan.relations[parent.relation].fields
    key = tuple(ColumnRef(f.type, parent.relation, c, f.name, f.nullable) for c, f in enumerate(fields))
    nodes = list(plan.nodes)
    nodes[child] = replace(node, edge=replace(node.edge, parent_key=key))
    return replace(plan, nodes=tuple(nodes))


def _read_of(plan: QueryPlan, rest: list[int], own: set[int], child: int) -> list[ColumnRef]:
    """The columns of a part that the rest of the plan reads, the key of the cut edge included."""
    found: dict[tuple[int, int], ColumnRef] = {}

    def note(e: Expression) -> Expression:
        for x in walk(e):
            if isinstance(x, ColumnRef) and x.relation in own:
                found.setdefault((x.relation, x.column), x)
        return e

    kept = {*rest, child}
    map_expressions(
        replace(plan, nodes=tuple(_filterless(n, i in rest) for i, n in enumerate(plan.nodes) if i in kept)), note
    )
    return [found[place] for place in sorted(found)]


def _filterless(node: Node, stays: bool) -> Node:
    return node if stays else replace(node, filter=(), assertions=())


def _part(
    plan: QueryPlan, nodes: Mapping[int, Node], read: list[ColumnRef], residual: tuple[Expression, ...]
) -> QueryPlan:
    order = sorted(nodes)
    kept = sorted({n.relation for n in nodes.values()})
    number = {r: i for i, r in enumerate(kept)}
    placed = [replace(nodes[i], parent=order.index(nodes[i].parent) if nodes[i].parent >= 0 else -1) for i in order]
    fields = tuple(
        Field(f"{c.name or 'c'}_{i}", c.type, c.nullable or plan.relations[c.relation].fields[c.column].nullable)
        for i, c in enumerate(read)
    )
    made = replace(
        plan, nodes=tuple(placed), residual=residual, grouping=None, outputs=tuple(read), fields=fields,
        distinct=False, guarantee=_PART, attributes=(),
    )  # fmt: skip
    made = map_expressions(made, lambda e: transform(e, lambda x: _moved(x, number)))
    renumbered = tuple(replace(n, relation=number[n.relation]) for n in made.nodes)
    return replace(made, nodes=renumbered, relations=tuple(plan.relations[r] for r in kept))


def _moved(e: Expression, number: Mapping[int, int]) -> Expression:
    return replace(e, relation=number[e.relation]) if isinstance(e, ColumnRef) else e


def _reader(plan: QueryPlan, child: int, side: list[int], part: QueryPlan, read: list[ColumnRef]) -> QueryPlan:
    """The rest of the plan, with the part as one relation in the place of its nodes."""
    generalized = {n.relation for n in plan.nodes if n.generalized}
    own = {plan.nodes[i].relation for i in side}
    stay = [r for r in range(len(plan.relations)) if r not in own]
    kept = [r for r in stay if r not in generalized]
    number = {r: i for i, r in enumerate(kept)}
    new = len(kept)
    number |= {r: new + 1 + i for i, r in enumerate(r for r in stay if r in generalized)}
    place = {(c.relation, c.column): i for i, c in enumerate(read)}

    def moved(e: Expression) -> Expression:
        if not isinstance(e, ColumnRef):
            return e
        if (e.relation, e.column) in place:
            return replace(e, relation=new, column=place[e.relation, e.column])
        return replace(e, relation=number[e.relation])

    order = [i for i in range(len(plan.nodes)) if i == side[0] or i not in side]
    at = {i: order.index(i) for i in order} | {i: 0 for i in side if side[0] == 0}
    nodes = []
    for i in order:
        node = plan.nodes[i]
        parent = at[node.parent] if node.parent >= 0 else -1
        if i == side[0]:
            nodes.append(replace(node, relation=new, parent=parent, generalized=False, filter=()))
        else:
            nodes.append(replace(node, relation=number[node.relation], parent=parent))
    made = map_expressions(replace(plan, nodes=tuple(nodes)), lambda e: transform(e, moved))
    alias = " ⋈ ".join(plan.relations[plan.nodes[i].relation].alias for i in side if not plan.nodes[i].generalized)
    relations = [plan.relations[r] for r in kept]
    relations.append(RelationPlan(f"({alias})", part, part.fields))
    relations += [plan.relations[r] for r in stay if r in generalized]
    return _keyed(replace(made, relations=tuple(relations)), at[child])


def _keyed(plan: QueryPlan, child: int) -> QueryPlan:
    """The plan with conditions between the two ends of the cut edge as parts of its key."""
    node = plan.nodes[child]
    ends = plan.nodes[node.parent].relation, node.relation
    edge, residual = node.edge, []
    assert edge is not None
    for p in plan.residual:
        sides = equality(p)
        if sides is None or sides[2] or plan.nodes[node.parent].generalized or references(p) != {*ends}:
            residual.append(p)
            continue
        above, below = sorted(sides[:2], key=lambda e: references(e) != {ends[0]})
        edge = _longer(edge, above, below)
    nodes = list(plan.nodes)
    nodes[child] = replace(node, edge=edge)
    return replace(plan, nodes=tuple(nodes), residual=tuple(residual))


def _longer(edge: Edge, above: Expression, below: Expression) -> Edge:
    return replace(
        edge, parent_key=(*edge.parent_key, above), child_key=(*edge.child_key, below),
        null_safe=(*edge.null_safe, False),
    )  # fmt: skip


# Keys -----------------------------------------------------------------------------------------------------------


def _finds_one(plan: QueryPlan, at: int, near: int) -> bool:
    """Whether a tuple of one node finds at most one of a node next to it."""
    node, other = plan.nodes[at], plan.nodes[near]
    if other.parent == at:
        edge, key = other.edge, other.edge.child_key if other.edge is not None else ()
    elif node.parent == near:
        edge, key = node.edge, node.edge.parent_key if node.edge is not None else ()
    else:
        return False
    if other.generalized:
        return True
    unique = _unique(plan.relations[other.relation])
    columns = {e.column for e in key if isinstance(e, ColumnRef)}
    return edge is not None and unique is not None and unique <= columns


def _unique(relation: RelationPlan) -> set[int] | None:
    """Columns that no two tuples have equal."""
    source = relation.source
    if isinstance(source, TableSchema):
        return {*source.primary_key} or None
    if not isinstance(source, QueryPlan) or not is_part(source):
        return None
    at = trunk(source)
    own = None if at is None else _unique(source.relations[at])
    if own is None:
        return None
    shown = {(o.relation, o.column): i for i, o in enumerate(source.outputs) if isinstance(o, ColumnRef)}
    return {shown[at, c] for c in own} if at is not None and all((at, c) in shown for c in own) else None
