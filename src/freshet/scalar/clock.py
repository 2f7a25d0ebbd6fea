"""NOW() in comparisons, and the moments at which their outcome changes.

Law: g(NOW()) >= value turns from false to true once, where g never decreases. The moment is the least time t with
g(t) >= value; > is >= the next value, < and <= are the opposites. So a comparison of a row's value with the clock is
one moment of that row, or two for = and <>. Such g are sums with a fixed length of time and the beginnings of units;
months are not among them: March 30, 10:00 and March 31, 09:00 minus a month are February 28, in the other order.

Everything is counted in microseconds, dates from their midnight on: a date has no times between, so the same law holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import NoReturn

import numpy as np

from freshet.errors import UnsupportedError
from freshet.scalar import types
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Call, Expression, Literal, Named, walk
from freshet.scalar.functions.registry import comparison_of
from freshet.scalar.types import Type
from freshet.state.arrays import Int64s

NEVER = np.iinfo(np.int64).max
ALWAYS = np.iinfo(np.int64).min
_DAY = 86_400_000_000
_MOST_DAYS = NEVER // _DAY - 1
_UNITS = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000,
    "day": _DAY, "week": 7 * _DAY,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MONDAY = 3 * _DAY  # from Monday to the Thursday on which time begins


@dataclass(frozen=True, slots=True)
class Now(Named):
    """The clock's time. `spot`: the statement's text, line and column, for errors."""

    type: Type = types.TIMESTAMP
    name: str = "NOW()"
    nullable: bool = False
    spot: tuple[str, int, int] | None = field(default=None, compare=False)


class StepKind(StrEnum):
    PLUS = "plus"  # so many microseconds later
    FLOOR = "floor"  # the beginning of the unit of so many microseconds
    MONTHS = "months"  # the beginning of so many months


@dataclass(frozen=True, slots=True)
class Step:
    kind: StepKind
    size: int


@dataclass(frozen=True, slots=True)
class Moment:
    """The time from which on g(NOW()) >= value holds, or > if it is `strict`: the value is that column of a row, g the
    steps one after the other."""

    column: int
    strict: bool
    steps: tuple[Step, ...]

    def of(self, values: Int64s, type: Type) -> Int64s:
        """The moment of each value."""
        at = np.clip(values, -_MOST_DAYS, _MOST_DAYS) * _DAY if type == types.DATE else values
        if self.strict:
            at = _later(at, 1)
        for step in reversed(self.steps):
            at = _least(step, at)
        return at

    def described(self, name: str, before: bool, now: str = "NOW()") -> str:
        """What holds from the moment on, or before it."""
        for step in self.steps:
            now = _described(step, now)
        return f"{now} {('<=' if self.strict else '<') if before else '>' if self.strict else '>='} {name}"


@dataclass(frozen=True, slots=True)
class ClockComparison:
    """A comparison whose outcome changes as time passes: g(NOW()), the operator, and the value of the row."""

    steps: tuple[Step, ...]
    operator: ComparisonOperator
    value: Expression


def reads_now(expression: Expression) -> bool:
    return any(isinstance(e, Now) for e in walk(expression))


def refuse_now(expression: Expression) -> NoReturn:
    """For an expression that reads the clock where nothing can be made of it."""
    spot = next(e.spot for e in walk(expression) if isinstance(e, Now))
    if any(e.type.name == "MONTHS" or (isinstance(e, Call) and e.name == "add_months") for e in walk(expression)):
        remedy = "months differ in length: add them to the rows' time, as in ts + INTERVAL 1 MONTH > NOW()"
        raise UnsupportedError(f"NOW() with months added is not supported; {remedy}", *(spot or ()))
    remedy = "compare it with a date or timestamp of the rows, as in ts > NOW() - INTERVAL 1 HOUR"
    raise UnsupportedError(f"NOW() as anything but the bound of a comparison is not supported; {remedy}", *(spot or ()))


def turn_of(expression: Expression) -> ClockComparison | None:
    """The expression, if it is a comparison with the clock."""
    operator = comparison_of(expression)
    if not isinstance(expression, Call) or operator is None or len(expression.args) != 2:
        return None
    left, right = expression.args
    if reads_now(right):
        operator, left, right = operator.flipped, right, left
    if reads_now(right) or right.type not in (types.DATE, types.TIMESTAMP):
        return None
    steps = steps_of(left)
    return None if steps is None else ClockComparison(steps, operator, right)


def steps_of(e: Expression) -> tuple[Step, ...] | None:
    """What an expression does to the clock's time, first things first; None if it may decrease while time passes."""
    if isinstance(e, Now):
        return ()
    if not isinstance(e, Call) or sum(map(reads_now, e.args)) != 1:
        return None
    (inner,) = (a for a in e.args if reads_now(a))
    constants = [a for a in e.args if a is not inner]
    below, step = steps_of(inner), None
    if below is None or not all(isinstance(c, Literal) and c.value is not None for c in constants):
        return None
    given = [c.value for c in constants if isinstance(c, Literal)]
    if e.name == "cast" and not given:
        step = {types.DATE: _floor("day"), types.TIMESTAMP: ()}.get(e.type)
    elif e.name == "plus_interval" and constants[0].type.name == "MICROS":
        step = (_plus(int(given[0])),)  # type: ignore[arg-type]
    elif e.name == "date_add":
        step = (_plus(int(given[0]) * _DAY),)  # type: ignore[arg-type]
    elif e.name == "timestampadd" and given[0] in _UNITS:
        step = (_plus(int(given[1]) * _UNITS[str(given[0])]),)  # type: ignore[arg-type]
    elif e.name in ("date_trunc", "trunc"):
        step = _floor(str(given[0]).lower())
    return None if step is None else (*below, *step)


def _plus(size: int) -> Step:
    return Step(StepKind.PLUS, size)


def _floor(unit: str) -> tuple[Step, ...] | None:
    if unit in _MONTHS:
        return (Step(StepKind.MONTHS, _MONTHS[unit]),)
    if unit not in _UNITS:
        return None
    floor = Step(StepKind.FLOOR, _UNITS[unit])
    return (_plus(_MONDAY), floor, _plus(-_MONDAY)) if unit == "week" else (floor,)


def _later(at: Int64s, size: int) -> Int64s:
    """Times moved on, or back; those beyond the ends of time stay there."""
    if size >= 0:
        return np.where(at > NEVER - size, NEVER, np.minimum(at, NEVER - size) + size)
    return np.where(at < ALWAYS - size, ALWAYS, np.maximum(at, ALWAYS - size) + size)


def _least(step: Step, at: Int64s) -> Int64s:
    """The least times that the step brings to these or beyond."""
    if step.kind is StepKind.PLUS:
        return _later(at, -step.size)
    if step.kind is StepKind.FLOOR:
        within = np.clip(at, ALWAYS + step.size, NEVER - step.size)
        return -(-within // step.size) * step.size
    months = at.view("M8[us]").astype("M8[M]").astype(np.int64)
    begin = months - months % step.size
    exact = begin.astype("M8[M]").astype("M8[us]").astype(np.int64) == at
    return np.where(exact, begin, begin + step.size).astype("M8[M]").astype("M8[us]").astype(np.int64)


def _described(step: Step, now: str) -> str:
    if step.kind is StepKind.PLUS:
        return f"{now} {'-' if step.size < 0 else '+'} {timedelta(microseconds=abs(step.size))}"
    if step.kind is StepKind.FLOOR:
        return f"the start of {timedelta(microseconds=step.size)} at {now}"
    return f"the start of {step.size} months at {now}"
