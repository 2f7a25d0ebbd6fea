"""What an aggregate is: one object that knows everything about it.

Law: an aggregate's answer is a function of the bag of its group's rows. So it does not depend on the order in which
rows came, and taking a row away leaves what the remaining rows alone would give.
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
from freshet.scalar.types import Type
from freshet.state.arrays import Int64s
from freshet.state.tuples import Slots


class Written(Protocol):
    """An aggregate as it is written in a query, with what is needed to bind its parts."""

    call: exp.Expr
    name: str  # as SQL calls it
    distinct: bool
    parts: list[exp.Expr]  # the arguments
    order: list[exp.Expr]  # of WITHIN GROUP (ORDER BY ...)
    only: Expression | None  # the condition of FILTER

    def operands(self) -> tuple[Expression, Expression]:
        """The arguments of an aggregate of two."""

    def value(self, node: exp.Expr) -> Expression: ...

    def condition(self, node: exp.Expr) -> Expression: ...

    def cast(self, value: Expression, to: Type) -> Expression: ...

    def build(self, name: str, *args: Expression) -> Expression: ...

    def ask(self, call: AggregateCall) -> Expression:
        """Where the group's row has the value of an aggregate; the group keeps it from now on."""

    def reads(self, *slots: str) -> None:
        """Refuses a call that says more than these parts of it."""

    def fail(self, message: str) -> NoReturn: ...

    def refuse(self, what: str, instead: str) -> NoReturn: ...


class Carrier(Protocol):
    """A query in which parts of a join stand for all their tuples (logical/annotate)."""

    def counted(self, call: AggregateCall) -> Expression: ...

    def total(self, call: AggregateCall) -> Expression: ...

    def doubles(self, args: tuple[Expression, ...], term: int, call: AggregateCall) -> Expression: ...


class Partials(Protocol):
    """What the shards of a group say, and how it is read where it is put together (spark/partials)."""

    def part(self, call: AggregateCall) -> Expression: ...

    def average(self, total: AggregateCall, count: AggregateCall) -> Expression: ...


@dataclass(slots=True)
class Answer:
    """Where the answers of groups are written: one lane or two of each row of `out`, and a bit that says NULL."""

    groups: Slots
    state: Int64s
    out: Int64s
    lane: int
    null_lane: int
    bit: int

    def put(self, values: Int64s, there: Any) -> None:
        """One column of lanes for each lane of the type; NULL where not `there`."""
        for k in range(values.shape[1]):
            lane = np.ascontiguousarray(values[:, k])
            lanes.put_nullable(self.out, self.lane + k, lane, there, self.null_lane, self.bit)


class AggregateFunction:
    name: ClassVar[str]
    #: Whether it makes no difference how often a value occurs.
    idempotent: ClassVar[bool] = False
    #: Whether the aggregate of its own answers for parts of a group is its answer for the group.
    of_itself: ClassVar[bool] = False
    #: Whether it counts rows, so that it is never NULL and asks no more of values than whether they are.
    counts: ClassVar[bool] = False
    #: Whether, of the values of a group, it is the greatest (or the least: False); None for what is neither.
    greatest: ClassVar[bool | None] = None
    #: Its value over no rows.
    empty: ClassVar[int | None] = None
    #: What keeping it costs beyond one step for each joined row, as `explain` says it; whether by a logarithm.
    cost: ClassVar[str | None] = None
    logarithmic: ClassVar[bool] = False
    #: Whether a change of a group looks at all values of the group.
    rewrites: ClassVar[bool] = False

    # As it is written -----------------------------------------------------------------------------------------

    def bind(self, written: Written) -> Expression:
        written.reads("this")
        return written.ask(self.call([written.value(p) for p in written.parts], written))

    def call(self, args: Sequence[Expression], written: Written, **more: Any) -> AggregateCall:
        """The aggregate of bound arguments."""
        kind = self.type([a.type for a in args])
        distinct = written.distinct and not self.idempotent
        return AggregateCall(self.name, tuple(args), kind, distinct, written.only, **more)

    def type(self, args: Sequence[Type]) -> Type:
        """The type over arguments of these types."""
        raise NotImplementedError

    def nullable(self, call: AggregateCall, keyed: bool) -> bool:
        """Whether no row may count: an empty table, a FILTER, only NULLs."""
        return not keyed or call.filter is not None or any(functions.nullable(a) for a in call.args)

    def one(self, args: Sequence[Type]) -> Type:
        """The only argument's type."""
        if len(args) != 1:
            raise SqlError(f"{self.name.upper()} takes one argument, not {len(args)}; write one")
        if args[0].items is not None:
            raise SqlError(f"no aggregate {self.name.upper()}({args[0]}); aggregate what the array is made from")
        return args[0]

    # As it is kept --------------------------------------------------------------------------------------------

    def shares(self, call: AggregateCall) -> object:
        """What two calls must have in common, next to their arguments and filter, to share what is kept."""
        return None

    def keep(self, feed: Feed, call: AggregateCall) -> None:
        """Asks the feed for the state that the answer is made from."""
        raise NotImplementedError

    def step(self, call: AggregateCall, feed: Feed | None, out: int, null: tuple[int, int], rows: int) -> list[int]:
        """The step of aggregates/whole_sum that makes the answer from lanes of the group's state, if that can be done.
        `rows` is the lane that counts all rows."""
        return []

    def write(self, call: AggregateCall, feed: Feed, answer: Answer) -> None:
        """Makes the answers of groups; for what has no step."""
        raise NotImplementedError

    # As it is computed in parts -------------------------------------------------------------------------------

    def carries(self, call: AggregateCall) -> bool:
        """Whether it can be made from counts and sums that parts of a join have each for themselves."""
        return False

    def carried(self, call: AggregateCall, carrier: Carrier) -> Expression:
        raise NotImplementedError

    def duckdb(self, call: AggregateCall, args: Sequence[str], only: str) -> str | None:
        """The SQL by which DuckDB finds the same value or fails, of that of its arguments and of its FILTER clause;
        None where it may find another."""
        return None

    def has_partial(self, call: AggregateCall) -> bool:
        """Whether shards can each say an exact part of it."""
        return False

    def merged(self, call: AggregateCall, partials: Partials) -> AggregateCall:
        """The aggregate over what the shards say."""
        raise NotImplementedError


Spelled = Callable[[Written], Expression]
#: By name, as plans hold it.
AGGREGATES: dict[str, AggregateFunction] = {}
#: By parsed form: how it is bound.
SPELLED: dict[type[exp.Expr], Spelled] = {}

A = TypeVar("A", bound=type[AggregateFunction])


def aggregate(*forms: type[exp.Expr]) -> Callable[[A], A]:
    """Registers an aggregate, and the parsed forms that are written for it."""

    def register(made: A) -> A:
        function = made()
        AGGREGATES[function.name] = function
        SPELLED.update(dict.fromkeys(forms, function.bind))
        return made

    return register


def spelled(*forms: type[exp.Expr]) -> Callable[[Spelled], Spelled]:
    """Registers how forms are bound that are made of other aggregates."""

    def register(bind: Spelled) -> Spelled:
        SPELLED.update(dict.fromkeys(forms, bind))
        return bind

    return register


def function_of(call: AggregateCall) -> AggregateFunction:
    return AGGREGATES[call.function]
