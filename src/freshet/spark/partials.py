"""Groups that several shards speak of: what each shard says, and how it is put together.

A shard keeps its own groups and says how their rows change: COUNT as a count, SUM as a sum in the widest type, MIN and
MAX as they are, AVG as a sum and a count. The merge adds counts and sums and takes the least of the least. A partial
average (s, n) becomes one row of value s and n - 1 rows of value 0, so that the merge averages rows like any other.

Sums of doubles, lists and DISTINCT aggregates have no partial that is exact: there shards send keys and arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from freshet.plans.model import Guarantee, Node, QueryPlan, RelationPlan
from freshet.sql.bound import GROUP, Field, Grouping, TableSchema
from freshet.sql.expression import AggregateCall, ColumnRef, Expression, Literal, transform
from freshet.sql.functions import build, nullable
from freshet.types import BIGINT, Type, decimal

_PASSED_ON = Guarantee("single relation", 0, "O(1)", "O(1)")


@dataclass(slots=True)
class Split:
    shard: QueryPlan
    merge: QueryPlan  # over one relation: what the shards say
    keys: tuple[Expression, ...]  # what it is dispatched by
    averages: tuple[tuple[int, int], ...]


def split_grouping(plan: QueryPlan) -> Split:
    grouping = plan.grouping
    assert grouping is not None
    if all(_has_partial(c) for c in grouping.aggregates):
        return _by_partials(plan, grouping)
    return _by_rows(plan, grouping)


def split_distinct(plan: QueryPlan) -> Split:
    """Each shard's distinct rows, made distinct once more."""
    merge = over_rows("rows", plan.fields, None, True)
    return Split(plan, merge, merge.outputs, ())


def over_rows(
    name: str, fields: tuple[Field, ...], grouping: Grouping | None, distinct: bool,
    outputs: tuple[Expression, ...] | None = None, shown: tuple[Field, ...] | None = None,
) -> QueryPlan:  # fmt: skip
    """A plan that reads one relation, the rows another operator sends."""
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


def _has_partial(call: AggregateCall) -> bool:
    if call.function in ("min", "max"):
        return True
    if call.distinct or call.function not in ("count", "sum", "avg"):
        return False
    return call.function == "count" or (call.function in ("sum", "avg") and not call.args[0].type.is_fraction)


def _by_partials(plan: QueryPlan, grouping: Grouping) -> Split:
    calls: list[AggregateCall] = []
    merged: list[AggregateCall] = []
    averages: list[tuple[int, int]] = []
    first = len(grouping.keys)

    def part(call: AggregateCall) -> int:
        if call not in calls:
            calls.append(call)
        return first + calls.index(call)

    def read(column: int, type_: Type) -> ColumnRef:
        return ColumnRef(type_, 0, column, f"p{column}", True)

    for call in grouping.aggregates:
        if call.function == "count":
            column = part(replace(call, type=BIGINT))
            merged.append(AggregateCall("sum", (read(column, BIGINT),), BIGINT))
        elif call.function in ("min", "max"):
            merged.append(
                AggregateCall(call.function, (read(part(replace(call, distinct=False)), call.type),), call.type)
            )
        else:
            wide = decimal(38, call.args[0].type.scale if call.args[0].type.name == "DECIMAL" else 0)
            column = part(replace(call, function="sum", type=wide))
            if call.function == "avg":
                pair = column, part(replace(call, function="count", type=BIGINT))
                if pair not in averages:
                    averages.append(pair)
                # A sum that also serves an average would count the average's zeros as values; adding 0 changes no sum.
            merged.append(AggregateCall(call.function, (read(column, wide),), call.type))
    keys = tuple(Field(f"k{i}", k.type, nullable(k)) for i, k in enumerate(grouping.keys))
    fields = (*keys, *(Field(f"p{first + i}", c.type, True) for i, c in enumerate(calls)))
    shard = replace(
        plan,
        grouping=Grouping(grouping.keys, tuple(calls)),
        outputs=tuple(ColumnRef(f.type, GROUP, i, f.name, f.nullable) for i, f in enumerate(fields)),
        fields=fields,
        distinct=False,
    )
    read_keys = tuple(ColumnRef(f.type, 0, i, f.name, f.nullable) for i, f in enumerate(keys))
    counts = {first + i for i, c in enumerate(grouping.aggregates) if c.function == "count"}

    def counted(e: Expression) -> Expression:
        """COUNT over no partial at all is 0, where their sum is NULL."""
        if isinstance(e, ColumnRef) and e.relation == GROUP and e.column in counts:
            return build("coalesce", (replace(e, nullable=True), Literal(BIGINT, 0)))
        return e

    having = None if grouping.having is None else transform(grouping.having, counted)
    merge = over_rows(
        "partials", fields, Grouping(read_keys, tuple(merged), having), plan.distinct,
        tuple(transform(o, counted) for o in plan.outputs), plan.fields,
    )  # fmt: skip
    return Split(shard, merge, read_keys, tuple(averages))


def _by_rows(plan: QueryPlan, grouping: Grouping) -> Split:
    read: list[Expression] = list(grouping.keys)

    def place(e: Expression) -> ColumnRef:
        if e not in read:
            read.append(e)
        return ColumnRef(e.type, 0, read.index(e), f"a{read.index(e)}", nullable(e))

    keys = tuple(ColumnRef(k.type, 0, i, f"a{i}", nullable(k)) for i, k in enumerate(grouping.keys))
    calls = tuple(c.mapped(place) for c in grouping.aggregates)
    fields = tuple(Field(f"a{i}", e.type, nullable(e)) for i, e in enumerate(read))
    unaffected = all(c.distinct or c.function in ("min", "max") for c in grouping.aggregates)
    shard = replace(plan, grouping=None, outputs=tuple(read), fields=fields, distinct=unaffected)
    merge = over_rows(
        "rows", fields, Grouping(keys, calls, grouping.having), plan.distinct, plan.outputs, plan.fields
    )  # fmt: skip
    return Split(shard, merge, keys, ())
