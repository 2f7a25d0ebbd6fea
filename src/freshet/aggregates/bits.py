"""BIT_AND, BIT_OR and BIT_XOR of integers, from how often each bit is set (state/bit_counts)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sqlglot import exp

from freshet.aggregates.accumulators import Feed
from freshet.aggregates.function import AggregateFunction, Answer, WrittenCall, aggregate
from freshet.errors import SqlError
from freshet.scalar.expression import AggregateCall, Expression
from freshet.scalar.types import INT, VOID, Type
from freshet.state.bit_counts import AND, OR, XOR


class _Bits(AggregateFunction):
    operation: ClassVar[int]
    cost = "counts each bit of its values"

    def bind(self, written: WrittenCall) -> Expression:
        written.reads("this")
        values = [written.value(p) for p in written.parts]
        return written.ask(self.call([written.cast(v, INT) if v.type == VOID else v for v in values], written))

    def type(self, args: Sequence[Type]) -> Type:
        given = self.one(args)
        if not given.is_integer:
            name = self.name.upper()
            raise SqlError(f"no aggregate {name}({given}); {name} takes an integer: use CAST")
        return given

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        feed.by_bit()

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        assert feed.bits is not None
        values, there = feed.bits.values(answer.groups, answer.state[answer.groups, feed.count], self.operation)
        answer.put(values.reshape(-1, 1), there)


@aggregate(exp.BitwiseAndAgg)
class BitAnd(_Bits):
    name = "bit_and"
    idempotent = True
    of_itself = True
    operation = AND


@aggregate(exp.BitwiseOrAgg)
class BitOr(_Bits):
    name = "bit_or"
    idempotent = True
    of_itself = True
    operation = OR


@aggregate(exp.BitwiseXorAgg)
class BitXor(_Bits):
    name = "bit_xor"
    operation = XOR
