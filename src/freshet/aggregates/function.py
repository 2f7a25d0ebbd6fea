"""An aggregate: one object with everything that is known about it.

Law: the value of an aggregate is a function of the bag of its group's rows. So it does not depend on the order of
changes, and after a row is removed it is the value of the remaining rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

import numpy as np
from sqlglot import exp

from freshet.aggregates.accumulators import Feed
from freshet.errors import SqlError
from freshet.scalar import functions, lanes
from freshet.scalar.expression import AggregateCall, Expression
from freshet.scalar.types import VARIANT, Type
from freshet.state.arrays import Int64s
from freshet.state.tuples import Slots


class WrittenCall(Protocol):
    """An aggregate in the text of a query, with the means to bind its parts."""

    call: exp.Expr
    name: str  # its name in SQL
    distinct: bool
    parts: list[exp.Expr]  # the arguments
    order: list[exp.Expr]  # of WITHIN GROUP (ORDER BY ...)
    only: Expression | None  # the condition of FILTER

    def operands(self) -> tuple[Expression, Expression]:
        """The arguments of an aggregate that takes two."""

    def value(self, node: exp.Expr) -> Expression: ...

    def condition(self, node: exp.Expr) -> Expression: ...

    def cast(self, value: Expression, to: Type) -> Expression: ...

    def build(self, name: str, *args: Expression) -> Expression: ...

    def ask(self, call: AggregateCall) -> Expression:
        """The column of the group's row that holds an aggregate, which the group stores from now on."""

    def reads(self, *slots: str) -> None:
        """Refuses a call with clauses other than these."""

    def fail(self, message: str) -> NoReturn: ...

    def refuse(self, what: str, instead: str) -> NoReturn: ...


class Carrier(Protocol):
    """A query in which annotated parts of a join represent all their tuples (logical/annotate)."""

    def counted(self, call: AggregateCall) -> Expression: ...

    def total(self, call: AggregateCall) -> Expression: ...

    def doubles(self, args: tuple[Expression, ...], term: int, call: AggregateCall) -> Expression: ...


class Partials(Protocol):
    """The partial aggregates of a group's shards, and how to read them where they are merged (spark/partials)."""

    def part(self, call: AggregateCall) -> Expression: ...

    def average(self, total: AggregateCall, count: AggregateCall) -> Expression: ...


@dataclass(slots=True)
class Answer:
    """Where the values of groups are written: one lane or two of each row of `out`, and a NULL bit."""

    groups: Slots
    state: Int64s
    out: Int64s
    lane: int
    null_lane: int
    bit: int

    def put(self, values: Int64s, there: Any) -> None:
        """Writes one column for each lane of the type; NULL where `there` is false."""
        for k in range(values.shape[1]):
            lane = np.ascontiguousarray(values[:, k])
            lanes.put_nullable(self.out, self.lane + k, lane, there, self.null_lane, self.bit)


class AggregateFunction:
    name: ClassVar[str]
    #: Whether the number of occurrences of a value is irrelevant.
    idempotent: ClassVar[bool] = False
    #: Whether aggregating its own values for parts of a group gives its value for the group.
    of_itself: ClassVar[bool] = False
    #: Whether it counts rows: it is never NULL and depends only on whether values are NULL.
    counts: ClassVar[bool] = False
    #: Whether it is computed from the sum of its argument and from counts alone.
    adds: ClassVar[bool] = False
    #: Whether it takes arrays and structs.
    takes_nested: ClassVar[bool] = False
    #: True if it is the greatest value of a group, False if it is the least, None if it is neither.
    greatest: ClassVar[bool | None] = None
    #: Its value over no rows.
    empty: ClassVar[int | None] = None
    #: Its cost beyond one step for each joined row, as shown by `explain`; whether that is a logarithmic factor.
    cost: ClassVar[str | None] = None
    logarithmic: ClassVar[bool] = False
    #: Whether a change of a group reads all values of the group.
    rewrites: ClassVar[bool] = False

    # Syntax --------------------------------------------------------------------------------------------------

    def bind(self, written: WrittenCall) -> Expression:
        written.reads("this")
        return written.ask(self.call([written.value(p) for p in written.parts], written))

    def call(self, args: Sequence[Expression], written: WrittenCall, **more: Any) -> AggregateCall:
        """The aggregate of bound arguments."""
        kinds = [a.type for a in args]
        if VARIANT in kinds and not self.counts:
            raise SqlError(f"{self.name.upper()} of a VARIANT; cast it first, as in v:a::INT")
        kind = self.type(kinds)
        distinct = written.distinct and not self.idempotent
        if distinct and not all(given.is_ordered for given in kinds):
            what = (
                "VARIANTs are not compared; cast them" if VARIANT in kinds else "maps are not compared; use MAP_KEYS(m)"
            )
            raise SqlError(f"{self.name.upper()} of DISTINCT values, but {what}")
        return AggregateCall(self.name, tuple(args), kind, distinct, written.only, **more)

    def type(self, args: Sequence[Type]) -> Type:
        """The type over arguments of these types."""
        raise NotImplementedError

    def nullable(self, call: AggregateCall, keyed: bool) -> bool:
        """Whether there may be no row to aggregate: an empty table, a FILTER, only NULLs, only rows of no copies."""
        copies = () if call.copies is None else (call.copies,)
        return not keyed or call.filter is not None or any(functions.nullable(a) for a in (*call.args, *copies))

    def one(self, args: Sequence[Type]) -> Type:
        """The only argument's type."""
        if len(args) != 1:
            raise SqlError(f"{self.name.upper()} takes one argument, not {len(args)}; write one")
        if args[0].is_nested and not self.takes_nested:
            raise SqlError(f"no aggregate {self.name.upper()}({args[0]}); aggregate the values that it is made from")
        return args[0]

    # State ----------------------------------------------------------------------------------------------------

    def shares(self, call: AggregateCall) -> object:
        """What two calls must have in common, besides their arguments and filter, to share state."""
        return None

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        """Requests from the feed the state that the value is computed from."""
        raise NotImplementedError

    def step(self, call: AggregateCall, feed: Feed | None, out: int, null: tuple[int, int], rows: int) -> list[int]:
        """The step of aggregates/whole_sum that computes the value from lanes of the group's state, if there is one.
        `rows` is the lane that counts all rows."""
        return []

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        """Computes the values of groups, for aggregates without a step."""
        raise NotImplementedError

    # Parts ---------------------------------------------------------------------------------------------------

    def carries(self, call: AggregateCall) -> bool:
        """Whether it can be computed from counts and sums of each part of a join."""
        return False

    def carried(self, call: AggregateCall, carrier: Carrier) -> Expression:
        raise NotImplementedError

    def duckdb(self, call: AggregateCall, args: Sequence[str], only: str) -> str | None:
        """The SQL with which DuckDB computes the same value or fails, given the SQL of its arguments and of its FILTER
        clause; None if DuckDB's value may differ."""
        return None

    def has_partial(self, call: AggregateCall) -> bool:
        """Whether each shard can compute an exact partial value."""
        return False

    def merged(self, call: AggregateCall, partials: Partials) -> AggregateCall:
        """The aggregate over the partial values of the shards."""
        raise NotImplementedError


Spelled = Callable[[WrittenCall], Expression]
#: By name, as stored in plans.
AGGREGATES: dict[str, AggregateFunction] = {}
#: By parsed form: how it is bound.
SPELLED: dict[type[exp.Expr], Spelled] = {}

A = TypeVar("A", bound=type[AggregateFunction])


def aggregate(*forms: type[exp.Expr]) -> Callable[[A], A]:
    """Registers an aggregate with its parsed forms."""

    def register(made: A) -> A:
        function = made()
        AGGREGATES[function.name] = function
        SPELLED.update(dict.fromkeys(forms, function.bind))
        return made

    return register


def spelled(*forms: type[exp.Expr]) -> Callable[[Spelled], Spelled]:
    """Registers the binding of forms that are composed of other aggregates."""

    def register(bind: Spelled) -> Spelled:
        SPELLED.update(dict.fromkeys(forms, bind))
        return bind

    return register


def function_of(call: AggregateCall) -> AggregateFunction:
    return AGGREGATES[call.function]
