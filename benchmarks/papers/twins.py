"""The same join maintained in the two ways that the papers compare with, by the same engine, tables and kernels.

*Change propagation* stores only the base tables, with an index for every access path: each change is joined with all
other tables, and all matches are enumerated, including joined rows that a later table eliminates. *Intermediate views*
(higher-order maintenance) store the joins of the first two, three, ... tables, so that a change is joined with one
stored view at a time; these views may be larger than both the tables and the answer.

A twin takes the rewritten query of a view and expresses it with other operators of the engine. There is no SQL for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from freshet.database.db import inside
from freshet.database.view import View
from freshet.logical.attributes import equality
from freshet.logical.query import Block, Field, Query, Relation, TableSchema
from freshet.plans import build_plan
from freshet.plans.build import Rewrites
from freshet.plans.model import AnyPlan, BagPlan, Guarantee, QueryPlan
from freshet.scalar.expression import ColumnRef, Expression, references, transform, walk
from freshet.scalar.functions import build

FRESHET, PROPAGATION, INTERMEDIATE = "join tree", "change propagation", "intermediate views"
PROMISE = Guarantee("a twin for benchmarks", 0, "nothing", "nothing", ())

Place = tuple[int, int]  # a relation and one of its columns


def keep_as(view: View, twin: str) -> None:
    """Maintains the view in that way from now on."""
    if twin == FRESHET:
        return
    kept = inside(view)
    core, query = kept.state.core, kept.state.catalog.views[kept.key]
    assert isinstance(query, Query), "only plain selects have twins"
    made = TWINS[twin](query)
    core.discard(core.operators[kept.key])
    core.operators[kept.key] = core.build(f"view{kept.state.number()}", made, kept.state.memory)
    kept.plan = replace(kept.plan, root=made)
    kept.following.adapt = None
    kept.paid.begin(core.operators[kept.key])


@dataclass(frozen=True)
class _Join:
    """An inner join of tables, and its columns that are read above."""

    relations: tuple[Relation, ...]
    predicates: tuple[Expression, ...]
    read: frozenset[Place]

    @classmethod
    def of(cls, query: Query) -> _Join:
        assert not query.block.arms and all(isinstance(r.source, TableSchema) for r in query.relations)
        above = list(query.outputs) if query.grouping is None else list(query.grouping.keys)
        above += [] if query.grouping is None else [e for a in query.grouping.aggregates for e in a.reads]
        return cls(query.relations, (*query.block.predicates, *query.where), _columns(above))

    def filters(self, relation: int) -> list[Expression]:
        return [p for p in self.predicates if references(p) == {relation}]

    def between(self) -> list[Expression]:
        return [p for p in self.predicates if len(references(p)) > 1]

    def reference(self, place: Place) -> ColumnRef:
        relation, column = place
        field = self.relations[relation].fields[column]
        return ColumnRef(field.type, relation, column, field.name, field.nullable)


# Intermediate views -----------------------------------------------------------------------------------------------


def intermediate_views(query: Query) -> AnyPlan:
    join = _Join.of(query)
    order = _connected(join)
    source, places = _side(join, order[0]), _numbered(_needed(join, [order[0]]))
    for n in range(1, len(order)):
        source, places = _step(join, order[: n + 1], source, places)
    return build_plan(_above(query, source, places), rewrites=Rewrites.NONE)


def _connected(join: _Join) -> list[int]:
    """The relations in an order in which each joins an earlier one, in the written order as far as possible."""
    pairs = [references(p) for p in join.between() if equality(p) is not None]
    order = [0]
    while len(order) < len(join.relations):
        left = [r for r in range(len(join.relations)) if r not in order]
        order.append(next((r for r in left if any(r in p and p & {*order} for p in pairs)), left[0]))
    return order


def _needed(join: _Join, inside: Sequence[int]) -> list[Place]:
    """Columns of these relations that the rest of the join or the query above it reads."""
    later = [p for p in join.between() if not references(p) <= {*inside}]
    return sorted(p for p in join.read | _columns(later) if p[0] in inside)


def _side(join: _Join, relation: int) -> Query:
    """A table's rows that pass its filters, with the columns that are read."""
    return _select(join, [join.relations[relation]], [relation], {}, join.filters(relation))


def _step(join: _Join, order: Sequence[int], source: Query, places: dict[Place, int]) -> tuple[Query, dict[Place, int]]:
    """One more relation joined to an intermediate view."""
    new = order[-1]
    own = [p for p in join.between() if new in references(p) and references(p) <= {*order}]
    relations = [Relation("joined", source, source.fields), join.relations[new]]
    made = _select(join, relations, order, places, [*own, *join.filters(new)])
    return made, _numbered(_needed(join, order))


def _select(
    join: _Join, relations: Sequence[Relation], order: Sequence[int], places: dict[Place, int],
    predicates: Sequence[Expression],
) -> Query:  # fmt: skip
    new = len(relations) - 1

    def moved(e: Expression) -> Expression:
        if not isinstance(e, ColumnRef):
            return e
        return replace(e, relation=new) if e.relation == order[-1] else _at(e, places)

    shown = [join.reference(p) for p in _needed(join, order)]
    return Query(
        tuple(relations),
        Block(tuple(range(len(relations))), tuple(transform(p, moved) for p in predicates)),
        (),
        None,
        tuple(moved(c) for c in shown),
        tuple(Field(f"c{i}", c.type, c.nullable) for i, c in enumerate(shown)),
    )


# Change propagation -----------------------------------------------------------------------------------------------


def change_propagation(query: Query) -> AnyPlan:
    """Delta joins take sets of tuples without NULLs, so keys and other columns that are read must not be NULL; a table
    without primary key is read with all columns, and must not have duplicate rows."""
    join = _Join.of(query)
    names = _attributes(join)
    order = list(dict.fromkeys(names.values()))
    inputs, positions = [], []
    for r in range(len(join.relations)):
        mine = sorted((p for p in names if p[0] == r), key=lambda p: p[1])
        inputs.append(build_plan(_distinct(join, r, [join.reference(p) for p in mine]), rewrites=Rewrites.NONE))
        positions.append(tuple(order.index(names[p]) for p in mine))
    firsts = [join.reference(name) for name in order]
    fields = tuple(Field(f"c{i}", c.type, False) for i, c in enumerate(firsts))
    bag = BagPlan(tuple(inputs), tuple(positions), len(join.relations), fields, PROMISE)
    places = {place: order.index(name) for place, name in names.items()}
    rest = [p for p in join.between() if _joins(p) is None]
    where = tuple(transform(p, lambda e: _at(e, places)) for p in rest)
    over = replace(_above(query, _any_rows(fields), places), block=Block((0,), where))
    made = build_plan(over, rewrites=Rewrites.NONE)
    assert isinstance(made, QueryPlan)
    return replace(made, relations=(replace(made.relations[0], source=bag), *made.relations[1:]))


def _any_rows(fields: tuple[Field, ...]) -> Query:
    """Represents the rows of the delta joins while their reader is planned."""
    columns = tuple(ColumnRef(f.type, 0, i, f.name, f.nullable) for i, f in enumerate(fields))
    source = TableSchema("joined", fields)
    return Query((Relation("joined", source, fields),), Block((0,), ()), (), None, columns, fields)


def _attributes(join: _Join) -> dict[Place, Place]:
    """For each joined column, the first column that it must equal."""
    rest = [p for p in join.between() if _joins(p) is None]
    names = {p: p for p in sorted(join.read | _columns(join.between()) | _columns(rest))}
    for r, relation in enumerate(join.relations):
        assert isinstance(relation.source, TableSchema)
        key = relation.source.primary_key or range(len(relation.fields))
        names |= {(r, c): (r, c) for c in key if (r, c) not in names}
    for p in join.between():
        pair = _joins(p)
        if pair is not None:
            first, second = sorted(names[place] for place in pair)
            names = {place: first if name == second else name for place, name in names.items()}
    return names


def _joins(predicate: Expression) -> tuple[Place, Place] | None:
    """The two columns of an equality."""
    pair = equality(predicate)
    if pair is None or pair[2]:
        return None
    left, right, _ = pair
    if not isinstance(left, ColumnRef) or not isinstance(right, ColumnRef):
        return None
    return (left.relation, left.column), (right.relation, right.column)


def _distinct(join: _Join, relation: int, columns: Sequence[ColumnRef]) -> Query:
    """The values of a table's columns, without its alias and number: roles of one table share storage."""
    present = [build("is_not_null", (c,)) for c in columns if c.nullable]
    source = join.relations[relation]
    predicates = [_alone(p) for p in (*join.filters(relation), *present)]
    return Query(
        (replace(source, alias=getattr(source.source, "name", "rows")),),
        Block((0,), tuple(predicates)),
        (),
        None,
        tuple(_alone(c) for c in columns),
        tuple(Field(f"v{i}", c.type, False) for i, c in enumerate(columns)),
        distinct=True,
    )


# Above the join ---------------------------------------------------------------------------------------------------


def _above(query: Query, source: Query, places: dict[Place, int]) -> Query:
    """The rest of the query, over one relation that has the joined rows."""

    def moved(e: Expression) -> Expression:
        return transform(e, lambda x: _at(x, places))

    grouping = query.grouping
    if grouping is not None:
        calls = tuple(a.mapped(moved) for a in grouping.aggregates)
        grouping = replace(grouping, keys=tuple(map(moved, grouping.keys)), aggregates=calls)
    outputs = query.outputs if grouping is not None else tuple(map(moved, query.outputs))
    relation = Relation("joined", source, source.fields)
    return replace(query, relations=(relation,), block=Block((0,), ()), where=(), grouping=grouping, outputs=outputs)


def _at(e: Expression, places: dict[Place, int]) -> Expression:
    return replace(e, relation=0, column=places[e.relation, e.column]) if isinstance(e, ColumnRef) else e


def _alone(e: Expression) -> Expression:
    return transform(e, lambda x: replace(x, relation=0) if isinstance(x, ColumnRef) else x)


def _columns(expressions: Sequence[Expression]) -> frozenset[Place]:
    return frozenset((c.relation, c.column) for e in expressions for c in walk(e) if isinstance(c, ColumnRef))


def _numbered(places: Sequence[Place]) -> dict[Place, int]:
    return {place: i for i, place in enumerate(places)}


TWINS: dict[str, Callable[[Query], AnyPlan]] = {
    PROPAGATION: change_propagation,
    INTERMEDIATE: intermediate_views,
}
