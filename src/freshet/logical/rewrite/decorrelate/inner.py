"""A subquery's rows by key, and how its values are read from them next to the row it is computed for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from freshet.aggregates import AGGREGATES, function_of
from freshet.logical.apply import Apply, ApplyKind
from freshet.logical.kinds import JoinKind
from freshet.logical.query import (
    AnyQuery,
    Block,
    Field,
    Grouping,
    Query,
    Relation,
    TableSchema,
    TopK,
    group_key,
    key,
)
from freshet.logical.references import OuterRef, ValueRef
from freshet.logical.rewrite.blocks import NAMELESS
from freshet.logical.rewrite.decorrelate.keyed import CorrelationKey, KeyedQuery, by_keys, looked_up, tests
from freshet.logical.rewrite.decorrelate.place import Domain, Place
from freshet.logical.rewrite.decorrelate.split import SplitSelect, is_grand, split_values
from freshet.scalar import functions, types
from freshet.scalar.expression import AggregateCall, ColumnRef, Expression, GroupRef, Literal, transform


@dataclass(frozen=True, slots=True)
class InnerSelect:
    """`single`: no two rows have the same key. `sure`: there always is a row. `grand`: aggregates without GROUP BY."""

    apply: Apply
    split: SplitSelect
    found: KeyedQuery
    single: bool = False
    sure: bool = False
    grand: bool = False

    @property
    def query(self) -> AnyQuery:
        return self.found.query

    @property
    def correlated(self) -> tuple[CorrelationKey, ...]:
        return self.found.correlated

    @property
    def parts(self) -> int:
        """The number of columns before the keys."""
        return len(self.query.fields) - len(self.correlated)

    def value(self, at: int, number: int) -> Expression:
        """A value as read next to the subquery, whose rows are relation `number`."""
        return self._around(looked_up(self.split, at, self.found, number))

    def on(self, number: int) -> list[Expression]:
        """The predicates that find the rows of relation `number`."""
        keys = [key(number, i, f) for i, f in enumerate(self.query.fields) if i >= self.parts]
        return [self._around(test) for test in tests(self.correlated, keys)]

    def column(self, at: int, number: int) -> Expression:
        """A column, NULL where no row is found."""
        return replace(key(number, at, self.query.fields[at]), nullable=True)

    def _around(self, expression: Expression) -> Expression:
        outer = self.apply.outer
        return transform(expression, lambda e: outer[e.column] if isinstance(e, OuterRef) else e)


def inner_of(place: Place, apply: Apply) -> InnerSelect:
    query, domain = apply.query, Domain(place, apply)
    if apply.kind is ApplyKind.EXISTS:
        query = existing(query)
    grand = is_grand(query)
    split = split_values(query, grand or apply.kind is ApplyKind.SCALAR)
    found = by_keys(split.query, domain, complete=False)
    single = grand or (isinstance(query, TopK) and query.limit in (0, 1)) or _found_by_key(query, found)
    return InnerSelect(apply, split, found, single, grand and not found.correlated, grand)


def existing(query: AnyQuery) -> AnyQuery:
    """A query that has a row exactly if the given one has: outputs, duplicates and LIMIT do not matter."""
    if isinstance(query, TopK) and query.limit != 0 and not query.offset and not query.partition:
        return existing(query.source)
    if not isinstance(query, Query) or is_grand(query):
        return query
    shown = Literal(types.INT, 1)
    return replace(query, outputs=(shown,), fields=(Field("one", shown.type, False),), distinct=False)


def _found_by_key(query: AnyQuery, found: KeyedQuery) -> bool:
    """Whether equality with the keys finds at most one row of a table by its primary key."""
    if not isinstance(query, Query) or query.grouping is not None or query.distinct or len(query.block.relations) != 1:
        return False
    (number,) = query.block.relations
    source = query.relations[number].source
    if not isinstance(source, TableSchema) or not source.primary_key:
        return False
    if any(arm.kind is JoinKind.LEFT for arm in query.block.arms):
        return False
    inner = (a.inner for a in found.correlated)
    return set(source.primary_key) <= {e.column for e in inner if isinstance(e, ColumnRef) and e.relation == number}


def single_valued(inner: InnerSelect) -> InnerSelect:
    """The subquery with one row a key: its columns, and as a last one before the keys how many rows there were."""
    columns = [key(0, i, f) for i, f in enumerate(inner.query.fields)][: inner.parts]
    calls = [AggregateCall("min", (c,), c.type) for c in columns]
    found = _by_key(inner, [*calls, AggregateCall("count", (), types.BIGINT)])
    count = ValueRef(types.BIGINT, inner.parts, "rows", True)
    name = "single" if inner.correlated else "only_row"
    values = tuple(functions.build(name, (v, count)) for v in inner.split.values)
    return InnerSelect(inner.apply, SplitSelect(found.query, values), found, single=True, sure=not inner.correlated)


def aggregated(inner: InnerSelect, wanted: Sequence[tuple[str, tuple[Expression, ...]]]) -> InnerSelect:
    """Aggregates of the subquery's rows by key."""
    calls = [AggregateCall(name, args, AGGREGATES[name].type([a.type for a in args])) for name, args in wanted]
    found = _by_key(inner, calls)
    return InnerSelect(inner.apply, split_columns(found.query), found, single=True, sure=not inner.correlated)


def distinct(inner: InnerSelect, wanted: Expression) -> InnerSelect:
    """The distinct values of an expression over the subquery's rows, by key."""
    keys = [key(0, i, f) for i, f in enumerate(inner.query.fields) if i >= inner.parts]
    shown = (wanted, *keys)
    fields = tuple(Field(getattr(e, "name", "found"), e.type, functions.nullable(e)) for e in shown)
    relation = Relation(NAMELESS, inner.query, inner.query.fields)
    whole = Query((relation,), Block((0,), ()), (), None, shown, fields, True)
    return InnerSelect(inner.apply, split_columns(whole), KeyedQuery(whole, inner.correlated), single=True)


def split_columns(query: AnyQuery) -> SplitSelect:
    return SplitSelect(query, tuple(ValueRef(f.type, i, f.name, f.nullable) for i, f in enumerate(query.fields)))


def _by_key(inner: InnerSelect, calls: Sequence[AggregateCall]) -> KeyedQuery:
    keys = tuple(key(0, i, f) for i, f in enumerate(inner.query.fields) if i >= inner.parts)
    row = [
        GroupRef(c.type, len(keys) + i, c.function, function_of(c).nullable(c, bool(keys))) for i, c in enumerate(calls)
    ]
    row += [group_key(i, inner.query.fields[inner.parts + i]) for i in range(len(keys))]
    fields = tuple(Field(c.name, c.type, c.nullable) for c in row)
    relation = Relation(NAMELESS, inner.query, inner.query.fields)
    whole = Query((relation,), Block((0,), ()), (), Grouping(keys, tuple(calls)), tuple(row), fields)
    return KeyedQuery(whole, inner.correlated)
