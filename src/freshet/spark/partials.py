"""Groups that several shards contribute to: the partial results of shards, and how they are merged.

A shard maintains its own groups and emits the changes of their rows: COUNT as a count, SUM as a sum in the widest type,
MIN and MAX unchanged, AVG as a sum and a count. The merge adds counts and sums and takes the minimum of minima. A
partial average (s, n) becomes one row of value s and n - 1 rows of value 0, so that the merge averages rows like any
other.

Sums of doubles, lists and DISTINCT aggregates have no partial that is exact: for these shards send keys and arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from freshet.aggregates import function_of
from freshet.logical.query import Field, Grouping, TableSchema, group_key
from freshet.plans.model import Guarantee, Node, QueryPlan, RelationPlan
from freshet.scalar.expression import AggregateCall, ColumnRef, Expression, GroupRef, Literal, transform
from freshet.scalar.functions import build, nullable
from freshet.scalar.types import BIGINT

_PASSED_ON = Guarantee("single relation", 0, "O(1)", "O(1)")


@dataclass(slots=True)
class ShardSplit:
    shard: QueryPlan
    merge: QueryPlan  # over one relation: the partial results of shards
    keys: tuple[Expression, ...]  # the columns it is dispatched by
    averages: tuple[tuple[int, int], ...]


def split_grouping(plan: QueryPlan) -> ShardSplit:
    grouping = plan.grouping
    assert grouping is not None
    if all(function_of(c).has_partial(c) for c in grouping.aggregates):
        return _by_partials(plan, grouping)
    return _by_rows(plan, grouping)


def split_distinct(plan: QueryPlan) -> ShardSplit:
    """DISTINCT over the distinct rows of all shards."""
    merge = over_rows("rows", plan.fields, None, True)
    return ShardSplit(plan, merge, merge.outputs, ())


def over_rows(
    name: str, fields: tuple[Field, ...], grouping: Grouping | None, distinct: bool,
    outputs: tuple[Expression, ...] | None = None, shown: tuple[Field, ...] | None = None,
) -> QueryPlan:  # fmt: skip
    """A plan that reads a single relation: the rows sent by another operator."""
    refs: tuple[Expression, ...] = tuple(ColumnRef(f.type, 0, i, f.name, f.nullable) for i, f in enumerate(fields))
    return QueryPlan(
        (RelationPlan(name, TableSchema(name, fields), fields),),
        (Node(0, ()),),
        (),
        grouping,
        refs if outputs is None else outputs,
        fields if shown is None else shown,
        distinct,
        False,
        _PASSED_ON,
    )


class _ShardParts:
    """The partial results of a group, and their columns in the merge."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.calls: list[AggregateCall] = []
        self.averages: list[tuple[int, int]] = []

    def part(self, call: AggregateCall) -> ColumnRef:
        if call not in self.calls:
            self.calls.append(call)
        place = self._first + self.calls.index(call)
        return ColumnRef(call.type, 0, place, f"p{place}", True)

    def average(self, total: AggregateCall, count: AggregateCall) -> ColumnRef:
        """A sum that also serves an average would count the average's zeros as values; adding 0 changes no sum."""
        column = self.part(total)
        pair = column.column, self.part(count).column
        if pair not in self.averages:
            self.averages.append(pair)
        return column


def _by_partials(plan: QueryPlan, grouping: Grouping) -> ShardSplit:
    first = len(grouping.keys)
    said = _ShardParts(first)
    merged = [function_of(call).merged(call, said) for call in grouping.aggregates]
    calls, averages = said.calls, said.averages
    keys = tuple(Field(f"k{i}", k.type, nullable(k)) for i, k in enumerate(grouping.keys))
    fields = (*keys, *(Field(f"p{first + i}", c.type, True) for i, c in enumerate(calls)))
    shard = replace(
        plan,
        grouping=Grouping(grouping.keys, tuple(calls)),
        outputs=tuple(group_key(i, f) for i, f in enumerate(fields)),
        fields=fields,
        distinct=False,
    )
    read_keys = tuple(ColumnRef(f.type, 0, i, f.name, f.nullable) for i, f in enumerate(keys))
    counts = {first + i for i, c in enumerate(grouping.aggregates) if function_of(c).empty == 0}

    def counted(e: Expression) -> Expression:
        """COUNT over no partial at all is 0, where their sum is NULL."""
        if isinstance(e, GroupRef) and e.column in counts:
            return build("coalesce", (replace(e, nullable=True), Literal(BIGINT, 0)))
        return e

    having = None if grouping.having is None else transform(grouping.having, counted)
    merge = over_rows(
        "partials", fields, Grouping(read_keys, tuple(merged), having), plan.distinct,
        tuple(transform(o, counted) for o in plan.outputs), plan.fields,
    )  # fmt: skip
    return ShardSplit(shard, merge, read_keys, tuple(averages))


def _by_rows(plan: QueryPlan, grouping: Grouping) -> ShardSplit:
    read: list[Expression] = list(grouping.keys)

    def place(e: Expression) -> ColumnRef:
        if e not in read:
            read.append(e)
        return ColumnRef(e.type, 0, read.index(e), f"a{read.index(e)}", nullable(e))

    keys = tuple(ColumnRef(k.type, 0, i, f"a{i}", nullable(k)) for i, k in enumerate(grouping.keys))
    calls = tuple(c.mapped(place) for c in grouping.aggregates)
    fields = tuple(Field(f"a{i}", e.type, nullable(e)) for i, e in enumerate(read))
    unaffected = all(c.distinct or function_of(c).idempotent for c in grouping.aggregates)
    shard = replace(plan, grouping=None, outputs=tuple(read), fields=fields, distinct=unaffected)
    merge = over_rows(
        "rows", fields, Grouping(keys, calls, grouping.having), plan.distinct, plan.outputs, plan.fields
    )  # fmt: skip
    return ShardSplit(shard, merge, keys, ())
