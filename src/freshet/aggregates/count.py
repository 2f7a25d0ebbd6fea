"""COUNT, COUNT_IF, APPROX_COUNT_DISTINCT (which counts exactly) and REGR_COUNT."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from freshet.aggregates import whole_sum as whole
from freshet.aggregates.accumulators import Feed
from freshet.aggregates.function import AggregateFunction, Carrier, Partials, WrittenCall, aggregate, spelled
from freshet.scalar import functions
from freshet.scalar.expression import AggregateCall, Expression, Literal
from freshet.scalar.types import BIGINT, Type


@aggregate(exp.Count)
class Count(AggregateFunction):
    name = "count"
    counts = True
    empty = 0

    def bind(self, written: WrittenCall) -> Expression:
        written.reads("this", "expressions")
        if not written.parts and not isinstance(written.call.this, exp.Star):
            written.fail("COUNT takes at least one argument; write COUNT(*) to count rows")
        args = [written.value(p) for p in written.parts]
        if not written.distinct:
            args = [a for a in args if functions.nullable(a)]  # an argument that is never NULL is counted for every row
        return written.ask(self.call(args, written))

    def type(self, args: Sequence[Type]) -> Type:
        return BIGINT

    def nullable(self, call: AggregateCall, keyed: bool) -> bool:
        return False

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        feed.counted()

    def step(self, call: AggregateCall, feed: Feed | None, out: int, null: tuple[int, int], rows: int) -> list[int]:
        return whole.count_step(rows if feed is None else feed.count, out)

    def carries(self, call: AggregateCall) -> bool:
        return True

    def carried(self, call: AggregateCall, carrier: Carrier) -> Expression:
        return functions.build("coalesce", (carrier.counted(call), Literal(BIGINT, 0)))

    def duckdb(self, call: AggregateCall, args: Sequence[str], only: str) -> str | None:
        if len(args) > 1:
            return None
        return f"COUNT({'DISTINCT ' if call.distinct else ''}{args[0] if args else '*'}){only}"

    def has_partial(self, call: AggregateCall) -> bool:
        return not call.distinct

    def merged(self, call: AggregateCall, partials: Partials) -> AggregateCall:
        return AggregateCall("sum", (partials.part(call),), BIGINT)


@spelled(exp.CountIf)
def count_if(written: WrittenCall) -> Expression:
    """Counts the rows on which its argument is true."""
    written.reads("this")
    (part,) = written.parts
    if written.distinct:
        written.refuse("COUNT_IF of DISTINCT", "count the distinct values: COUNT(DISTINCT x) FILTER (WHERE ...)")
    return counted_where(written, written.condition(part))


@spelled(exp.ApproxDistinct)
def approx_count_distinct(written: WrittenCall) -> Expression:
    """The requested accuracy is always met: the count is exact."""
    written.reads("this", "accuracy")
    return written.ask(AggregateCall("count", (written.value(written.parts[0]),), BIGINT, True, written.only))


def counted_where(written: WrittenCall, condition: Expression) -> Expression:
    only = condition if written.only is None else written.build("and", written.only, condition)
    return written.ask(AggregateCall("count", (), BIGINT, False, only))
