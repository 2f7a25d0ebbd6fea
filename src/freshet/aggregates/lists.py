"""ARRAY_AGG, COLLECT_LIST, COLLECT_SET and STRING_AGG: the values of a group as one list or one text.

NULLs are left out, as in Spark. Without an ORDER BY the values are in ascending order, so that a view has one answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from freshet.aggregates.accumulators import Feed
from freshet.aggregates.function import AggregateFunction, Answer, WrittenCall, aggregate
from freshet.scalar import types
from freshet.scalar.expression import AggregateCall, Expression, Literal
from freshet.scalar.types import Type


class _Gathering(AggregateFunction):
    cost = "keeps its values, and rewrites the list of each group it touches"
    rewrites = True
    of_texts = False

    def type(self, args: Sequence[Type]) -> Type:
        return types.array_of(args[0])

    def shares(self, call: AggregateCall) -> object:
        return call.order or None

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        feed.gathered(call)

    def bind(self, written: WrittenCall) -> Expression:
        written.reads("this", "separator", "nulls_excluded")
        call = written.call
        body, items = (call.this.this, call.this.expressions) if isinstance(call.this, exp.Order) else (call.this, [])
        distinct = isinstance(call, exp.ArrayUniqueAgg)
        if isinstance(body, exp.Distinct):
            distinct = True
            if len(body.expressions) != 1:
                written.fail("it takes one value; name one column after DISTINCT")
            body = body.expressions[0]
        value = written.value(body)
        if value.type.name == "VOID" or (self.of_texts and value.type.is_nested):
            written.refuse(f"{self.name.upper()} of {value.type} values", "collect the values they are made from")
        if not value.type.is_ordered:
            written.refuse(f"a list of {value.type} values", "maps have no order: collect MAP_ENTRIES(m)")
        args = [self.listed(value, written)]
        order = []
        for item in items:
            key = written.value(item.this)
            key = args[0] if key == value else key
            if key not in args:
                args.append(key)
            order.append((args.index(key), bool(item.args.get("desc")), bool(item.args.get("nulls_first"))))
        if distinct and len(args) > 1:
            written.fail("with DISTINCT the list can only be ordered by its own values; order by those")
        kind, separator = self.type([args[0].type]), self.separator(written, args[0].type)
        return written.ask(AggregateCall(self.name, tuple(args), kind, distinct, written.only, tuple(order), separator))

    def listed(self, value: Expression, written: WrittenCall) -> Expression:
        return value

    def separator(self, written: WrittenCall, value: Type) -> str | bytes:
        return ""


@aggregate(exp.ArrayAgg, exp.ArrayUniqueAgg)
class ArrayAgg(_Gathering):
    name = "array_agg"

    def nullable(self, call: AggregateCall, keyed: bool) -> bool:
        return False

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        assert feed.values is not None
        texts, there = feed.values.lists(answer.groups)
        answer.put(texts.reshape(-1, 1), there)


@aggregate(exp.GroupConcat)
class StringAgg(_Gathering):
    name = "string_agg"
    of_texts = True

    def type(self, args: Sequence[Type]) -> Type:
        return types.BINARY if args[0] == types.BINARY else types.STRING

    def listed(self, value: Expression, written: WrittenCall) -> Expression:
        return value if value.type == types.BINARY else written.cast(value, types.STRING)

    def separator(self, written: WrittenCall, value: Type) -> str | bytes:
        given = written.call.args.get("separator")
        if given is None:
            return ""
        bound = written.value(given)
        if not isinstance(bound, Literal) or not isinstance(bound.value, (str, bytes)):
            written.refuse("STRING_AGG with a separator that is not a constant", "write a text: STRING_AGG(x, ', ')")
        if (value == types.BINARY) != isinstance(bound.value, bytes):
            instead = "X'2C'" if value == types.BINARY else "','"
            written.fail(f"STRING_AGG of {value} has a separator of {bound.type}; give one like {instead}")
        return bound.value

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        assert feed.values is not None
        texts, there = feed.values.texts(answer.groups, call.separator)
        answer.put(texts.reshape(-1, 1), there)
