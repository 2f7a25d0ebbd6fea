"""SUM and AVG: exact for integers and decimals, rounded once for doubles (whole_sum.py, state/exact_sum.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sqlglot import exp

from freshet.aggregates import whole_sum as whole
from freshet.aggregates.accumulators import Feed
from freshet.aggregates.function import AggregateFunction, Answer, Carrier, Partials, aggregate
from freshet.errors import SqlError
from freshet.scalar import lanes
from freshet.scalar.expression import AggregateCall, Call, Expression
from freshet.scalar.functions import cast
from freshet.scalar.functions.coercion import bounded
from freshet.scalar.types import BIGINT, DOUBLE, MICROS, MONTHS, Type, decimal
from freshet.state.kernel import kernel

_COUNT = decimal(20, 0)  # it holds every BIGINT


@kernel("void(i4[::1], f8[::1], i8[:,::1], i8, b1, i8[:,::1], i8, i8, i8)")
def _finish_doubles(
    groups: Any, sums: Any, state: Any, count_lane: Any, divide: Any, out: Any, lane: Any, null_lane: Any, bit: Any
) -> None:
    for i in range(len(groups)):
        count = state[groups[i], count_lane]
        if count <= 0:
            out[i, lane] = 0
            out[i, null_lane] |= bit
        else:
            out[i, lane] = lanes.double_bits(sums[i] / count if divide else sums[i])


def number(function: AggregateFunction, args: Sequence[Type]) -> Type:
    """The type of the only argument, which is a number; NULL is a DOUBLE."""
    given = function.one(args)
    if given.name == "VOID":
        return DOUBLE
    if not given.is_numeric:
        name = function.name.upper()
        raise SqlError(f"no aggregate {name}({given}); {name} takes a number: use CAST")
    return given


class _Summed(AggregateFunction):
    adds = True
    divided: ClassVar[bool]

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        feed.summed()

    def step(self, call: AggregateCall, feed: Feed | None, out: int, null: tuple[int, int], rows: int) -> list[int]:
        assert feed is not None
        if feed.exact is not None:
            return []
        return whole.sum_step(self.divided, call.type, call.args[0].type, feed.count, out, null)

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        assert feed.exact is not None
        sums = np.ascontiguousarray(feed.exact.terms(answer.groups, call.term + 1)[:, call.term])
        place = answer.out, answer.lane, answer.null_lane, answer.bit
        _finish_doubles(answer.groups, sums, answer.state, feed.count, self.divided, *place)

    def carries(self, call: AggregateCall) -> bool:
        return call.copies is None and not call.type.is_interval

    def has_partial(self, call: AggregateCall) -> bool:
        return not call.distinct and not call.args[0].type.is_fraction


@aggregate(exp.Sum)
class Sum(_Summed):
    name = "sum"
    divided = False

    def type(self, args: Sequence[Type]) -> Type:
        if args and args[0].is_interval:
            return self.one(args)
        given = number(self, args)
        if given.name == "DECIMAL":
            return bounded(given.precision + 10, given.scale)
        return BIGINT if given.is_integer else DOUBLE

    def carried(self, call: AggregateCall, carrier: Carrier) -> Expression:
        return cast(carrier.total(call), call.type)

    def duckdb(self, call: AggregateCall, args: Sequence[str], only: str) -> str | None:
        if not _is_exact(call) or call.type.scale != call.args[0].type.scale:
            return None
        written = "BIGINT" if call.type == BIGINT else f"DECIMAL({call.type.precision},{call.type.scale})"
        return f"CAST(SUM({_each(call)}{args[0]}){only} AS {written})"

    def merged(self, call: AggregateCall, partials: Partials) -> AggregateCall:
        part = partials.part(replace(call, type=_widest(call)))
        return AggregateCall("sum", (part,), call.type)


@aggregate(exp.Avg)
class Average(_Summed):
    name = "avg"
    divided = True

    def type(self, args: Sequence[Type]) -> Type:
        if args and args[0].is_interval:
            return MONTHS if self.one(args).name == "MONTHS" else MICROS
        given = number(self, args)
        return bounded(given.precision + 4, given.scale + 4) if given.name == "DECIMAL" else DOUBLE

    def carried(self, call: AggregateCall, carrier: Carrier) -> Expression:
        total, count = carrier.total(call), carrier.counted(call)
        if call.type == DOUBLE:
            return Call(DOUBLE, "divide", (cast(total, DOUBLE), cast(count, DOUBLE)))
        return Call(call.type, "divide", (total, cast(count, _COUNT)))

    def duckdb(self, call: AggregateCall, args: Sequence[str], only: str) -> str | None:
        """For integers, and for sums that a double represents exactly."""
        if not call.args[0].type.is_integer:
            return None
        total, count = (f"{name}({_each(call)}{args[0]}){only}" for name in ("SUM", "COUNT"))
        fits = f"{total} IS NULL OR abs({total}) <= {1 << 53}"
        return f"CASE WHEN {fits} THEN CAST({total} AS DOUBLE) / {count} ELSE error('a sum is too large') END"

    def merged(self, call: AggregateCall, partials: Partials) -> AggregateCall:
        total = replace(call, function="sum", type=_widest(call))
        part = partials.average(total, replace(call, function="count", type=BIGINT))
        return AggregateCall("avg", (part,), call.type)


def _is_exact(call: AggregateCall) -> bool:
    return call.args[0].type.is_integer or call.args[0].type.name == "DECIMAL"


def _each(call: AggregateCall) -> str:
    return "DISTINCT " if call.distinct else ""


def _widest(call: AggregateCall) -> Type:
    """A type that holds the sum of any shard."""
    argument = call.args[0].type
    return decimal(38, argument.scale if argument.name == "DECIMAL" else 0)
