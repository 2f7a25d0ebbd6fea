"""Subqueries that read the row around them, turned into queries that read nothing but their own relations.

A query Q(o) that depends on values o of the rows around it becomes one query with additional columns, its keys, that
say for which o each row is. Where a select reads o only in equalities (inner = o) of its WHERE, the inner sides are the
keys: its rows under a key are the rows of Q(o) with that key. Otherwise it is joined to the values it is computed for
(`Domain`), which are then its keys. Above that, keys are further keys of a grouping, further columns of DISTINCT and of
set operations, and divide the partitions of windows and of LIMIT. This is how DuckDB flattens dependent joins.

Aggregates without GROUP BY have a row where Q(o) has none: they are looked up from the values they are computed for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from freshet.logical.apply import has_apply, outer_columns, outer_of, own_expressions
from freshet.logical.kinds import JoinKind
from freshet.logical.query import (
    AnyQuery,
    Arm,
    Block,
    Field,
    Flattened,
    Grouping,
    Query,
    Relation,
    SetOperation,
    TableSchema,
    TopK,
    UnionAll,
    Windowed,
    key,
)
from freshet.logical.references import OuterRef, ValueRef
from freshet.logical.rewrite.blocks import NAMELESS, map_block_expressions, map_blocks, select_all
from freshet.logical.rewrite.decorrelate.place import Domain
from freshet.logical.rewrite.decorrelate.split import SplitSelect, is_grand, split_values
from freshet.scalar import functions
from freshet.scalar.describe import describe
from freshet.scalar.expression import Call, ColumnRef, Expression, GroupRef, Literal, references, transform


@dataclass(frozen=True, slots=True)
class CorrelationKey:
    """A key of a query: the expression over its own rows, and the value of the outer row that it must equal."""

    inner: Expression
    outer: Expression
    null_safe: bool


@dataclass(frozen=True, slots=True)
class KeyedQuery:
    """`query` has a last column for each key."""

    query: AnyQuery
    correlated: tuple[CorrelationKey, ...] = ()

    @property
    def finds(self) -> list[tuple[Expression, bool]]:
        return [(a.outer, a.null_safe) for a in self.correlated]

    @property
    def fields(self) -> tuple[Field, ...]:
        """Of the keys."""
        return self.query.fields[len(self.query.fields) - len(self.correlated) :]


def tests(correlated: Iterable[CorrelationKey], keys: Iterable[Expression]) -> list[Expression]:
    """The predicates that connect the keys of a query to the outer row."""
    pairs = zip(correlated, keys, strict=True)
    return [functions.build("not_distinct" if a.null_safe else "eq", (a.outer, k)) for a, k in pairs]


def by_keys(
    query: AnyQuery, domain: Domain, lent: Sequence[OuterRef] | None = None, complete: bool = True
) -> KeyedQuery:
    """`lent`: what the keys have to be. `complete`: whether aggregates without GROUP BY have their row for every value
    they are computed for; otherwise where rows are found."""
    if lent is None and not outer_columns(query):
        return KeyedQuery(query)
    if isinstance(query, TopK):
        return _first_rows(query, by_keys(_selected(query.source), domain, lent))
    if isinstance(query, Windowed):
        return _windowed(query, by_keys(query.source, domain, lent))
    if isinstance(query, Flattened):
        return _flattened(query, by_keys(query.source, domain, lent))
    if isinstance(query, UnionAll):
        inputs = _alike(query.inputs, domain, lent)
        return KeyedQuery(UnionAll(tuple(k.query for k in inputs), _fields(query, inputs)), inputs[0].correlated)
    if isinstance(query, SetOperation):
        inputs = _alike((query.left, query.right), domain, lent)
        whole = replace(query, left=inputs[0].query, right=inputs[1].query, fields=_fields(query, inputs))
        return KeyedQuery(whole, inputs[0].correlated)
    select = _selected(query)
    return _completed(select, domain, lent) if complete and is_grand(select) else _select(select, domain, lent)


def _selected(query: AnyQuery) -> Query:
    return query if isinstance(query, Query) else select_all(query)


# Selects ------------------------------------------------------------------------------------------------------------


def _select(query: Query, domain: Domain, lent: Sequence[OuterRef] | None) -> KeyedQuery:
    query = _with_sources(query, domain)
    equal = {p: found for p in query.block.predicates if (found := _equality(p)) is not None}
    rest = tuple(p for p in query.block.predicates if p not in equal)
    without = replace(query, block=replace(query.block, predicates=rest))
    if lent is None and outer_of(own_expressions(without)):
        lent = outer_of(own_expressions(query))
    if lent is not None:
        return _lend(query, domain, lent)
    correlated = tuple(equal.values())
    return KeyedQuery(_with_keys(without, correlated), correlated)


def _with_sources(query: Query, domain: Domain) -> Query:
    """The queries that a select reads, by their keys: these must equal what is around."""
    relations, conditions = list(query.relations), dict[int, list[Expression]]()
    for number in query.block.within():
        relation = relations[number]
        if isinstance(relation.source, TableSchema):
            continue
        found = by_keys(relation.source, domain)
        if found.correlated:
            shown = len(relation.fields)
            relations[number] = Relation(relation.alias, found.query, (*relation.fields, *found.fields))
            conditions[number] = tests(
                found.correlated, (key(number, shown + i, f) for i, f in enumerate(found.fields))
            )

    def conditioned(block: Block) -> Block:
        added = [p for number in block.relations for p in conditions.get(number, ())]
        return replace(block, predicates=(*block.predicates, *added))

    return replace(query, relations=tuple(relations), block=map_blocks(query.block, conditioned))


def _equality(predicate: Expression) -> CorrelationKey | None:
    """inner = outer, where each side reads only its own."""
    if not isinstance(predicate, Call) or predicate.name not in ("eq", "not_distinct") or has_apply(predicate):
        return None
    for inner, outer in (predicate.args, predicate.args[::-1]):
        if references(inner) and not outer_of([inner]) and outer_of([outer]) and not references(outer):
            return CorrelationKey(inner, outer, predicate.name == "not_distinct")
    return None


def _lend(query: Query, domain: Domain, lent: Sequence[OuterRef]) -> KeyedQuery:
    """A select joined to the values for which it is computed."""
    number, relation = len(query.relations), domain.relation(lent)
    columns = {c: key(number, i, f) for i, (c, f) in enumerate(zip(lent, relation.fields, strict=True))}
    correlated = tuple(CorrelationKey(column, outer, column.nullable) for outer, column in columns.items())

    def read(e: Expression) -> Expression:
        return columns[e] if isinstance(e, OuterRef) else e

    block = map_block_expressions(query.block, read)
    block = replace(block, relations=(number, *block.relations))
    query = replace(query, relations=(*query.relations, relation), block=block)
    if query.grouping is None:
        query = replace(query, outputs=tuple(transform(e, read) for e in query.outputs))
        return KeyedQuery(_with_keys(query, correlated), correlated)
    keys = tuple(transform(k, read) for k in query.grouping.keys)
    calls = tuple(c.mapped(lambda e: transform(e, read)) for c in query.grouping.aggregates)
    query = _with_keys(replace(query, grouping=Grouping(keys, calls, query.grouping.having)), correlated)
    assert query.grouping is not None
    row = query.grouping.keys

    def above(e: Expression) -> Expression:
        if not isinstance(e, OuterRef):
            return e
        column = columns[e]
        return GroupRef(column.type, row.index(column), column.name, column.nullable)

    having = None if query.grouping.having is None else transform(query.grouping.having, above)
    outputs = tuple(transform(e, above) for e in query.outputs)
    return KeyedQuery(replace(query, grouping=replace(query.grouping, having=having), outputs=outputs), correlated)


def _with_keys(query: Query, correlated: Sequence[CorrelationKey]) -> Query:
    """A select with its keys as last columns, which it groups by if it groups."""
    keys = [a.inner for a in correlated]
    fields = tuple(Field(describe(k), k.type, functions.nullable(k)) for k in keys)
    if query.grouping is None:
        return replace(query, outputs=(*query.outputs, *keys), fields=(*query.fields, *fields))
    before, row = len(query.grouping.keys), tuple(dict.fromkeys((*query.grouping.keys, *keys)))

    def moved(e: Expression) -> Expression:
        if isinstance(e, GroupRef) and e.column >= before:
            return replace(e, column=e.column - before + len(row))
        return e

    having = None if query.grouping.having is None else transform(query.grouping.having, moved)
    outputs = [transform(e, moved) for e in query.outputs]
    outputs += [GroupRef(k.type, row.index(k), f.name, f.nullable) for k, f in zip(keys, fields, strict=True)]
    grouping = Grouping(row, query.grouping.aggregates, having)
    return replace(query, grouping=grouping, outputs=tuple(outputs), fields=(*query.fields, *fields))


def _completed(query: Query, domain: Domain, lent: Sequence[OuterRef] | None) -> KeyedQuery:
    """Aggregates without GROUP BY, looked up from every value they are computed for."""
    outer = list(outer_columns(query)) if lent is None else list(lent)
    split = split_values(query)
    found = by_keys(split.query, domain, complete=False)
    relation = domain.relation(outer)
    columns = {c: key(0, i, f) for i, (c, f) in enumerate(zip(outer, relation.fields, strict=True))}

    def read(e: Expression) -> Expression:
        return columns[e] if isinstance(e, OuterRef) else e

    values = [transform(looked_up(split, i, found, 1), read) for i in range(len(split.values))]
    keys = [key(1, len(found.query.fields) - len(found.correlated) + i, f) for i, f in enumerate(found.fields)]
    on = tuple(transform(test, read) for test in tests(found.correlated, keys))
    kept = tuple(values[-1:]) if split.kept else ()
    block = Block((0, 1), kept) if not found.correlated else Block((0,), kept, (Arm(JoinKind.LEFT, Block((1,), on)),))
    relations = (relation, Relation(NAMELESS, found.query, found.query.fields))
    outputs = (*values[: len(query.fields)], *columns.values())
    fields = tuple(replace(f, nullable=functions.nullable(e)) for f, e in zip(query.fields, outputs, strict=False))
    correlated = tuple(CorrelationKey(column, c, column.nullable) for c, column in columns.items())
    return KeyedQuery(Query(relations, block, (), None, outputs, (*fields, *relation.fields)), correlated)


def looked_up(split: SplitSelect, at: int, found: KeyedQuery, number: int) -> Expression:
    """A value of a subquery that has at most one row for each key, where its rows are relation `number`: over those,
    and over the row around it."""
    value = transform(split.values[at], lambda e: _or_null(found, e.column, number) if isinstance(e, ValueRef) else e)
    if not found.correlated or not split.empty or split.empty[at] == Literal(split.empty[at].type, None):
        return value
    mark = len(found.query.fields) - len(found.correlated) - 1
    missing = functions.build("is_null", (_or_null(found, mark, number),))
    return functions.build("case", (missing, split.empty[at], value))


def _or_null(found: KeyedQuery, column: int, number: int) -> ColumnRef:
    """A column, NULL where no row is found."""
    return replace(key(number, column, found.query.fields[column]), nullable=True)


# Queries above selects ----------------------------------------------------------------------------------------------


def _first_rows(query: TopK[AnyQuery], source: KeyedQuery) -> KeyedQuery:
    """The first rows of each key. Keys come right after the columns that are shown."""
    select = _selected(source.query)
    shown, keys = len(query.fields), len(source.correlated)
    last = len(select.fields) - keys
    places = [*range(shown), *range(last, last + keys), *range(shown, last)]
    moved = replace(
        select, outputs=tuple(select.outputs[i] for i in places), fields=tuple(select.fields[i] for i in places)
    )
    order = tuple(replace(o, column=o.column + keys if o.column >= shown else o.column) for o in query.order)
    partition = (*query.partition, *range(shown, shown + keys))
    fields = (*query.fields, *source.fields)
    return KeyedQuery(replace(query, source=moved, partition=partition, order=order, fields=fields), source.correlated)


def _flattened(query: Flattened[AnyQuery], source: KeyedQuery) -> KeyedQuery:
    """The keys come before the elements, and are moved to the end."""
    below, keys = len(query.source.fields) - 1, len(source.correlated)
    fields = (*query.fields[:below], *source.fields, *query.fields[below:])
    made = replace(query, source=source.query, fields=fields)
    order = [*range(below), *range(below + keys, len(fields)), *range(below, below + keys)]
    whole = select_all(made)
    moved = replace(whole, outputs=tuple(whole.outputs[i] for i in order), fields=tuple(whole.fields[i] for i in order))
    return KeyedQuery(moved, source.correlated)


def _windowed(query: Windowed[AnyQuery], source: KeyedQuery) -> KeyedQuery:
    """Windows over the rows of each key, and the columns in the order they had."""
    keys, last = len(source.correlated), len(query.source.fields)
    partition = (*query.partition, *range(last, last + keys))
    fields = (*query.fields[:last], *source.fields, *query.fields[last:])
    whole = select_all(replace(query, source=source.query, partition=partition, fields=fields))
    places = [*range(last), *range(last + keys, len(fields)), *range(last, last + keys)]
    outputs, shown = tuple(whole.outputs[i] for i in places), tuple(fields[i] for i in places)
    return KeyedQuery(replace(whole, outputs=outputs, fields=shown), source.correlated)


def _alike(inputs: Sequence[AnyQuery], domain: Domain, lent: Sequence[OuterRef] | None) -> list[KeyedQuery]:
    """Queries whose rows are added up or compared, with the same keys."""
    if lent is None:
        found = [by_keys(q, domain) for q in inputs]
        if all(k.correlated and k.finds == found[0].finds for k in found):
            return found
        lent = list(dict.fromkeys(c for q in inputs for c in outer_columns(q)))
    return [by_keys(q, domain, lent) for q in inputs]


def _fields(query: UnionAll[AnyQuery] | SetOperation[AnyQuery], inputs: Sequence[KeyedQuery]) -> tuple[Field, ...]:
    columns = zip(*(k.fields for k in inputs), strict=True)
    return (*query.fields, *(replace(c[0], nullable=any(f.nullable for f in c)) for c in columns))
