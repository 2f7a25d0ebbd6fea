"""Bound expressions: typed, names resolved, casts explicit. Immutable and comparable by value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from freshet.scalar.types import BOOLEAN, VOID, Type


@dataclass(frozen=True, slots=True)
class Expression:
    type: Type


class Named(Expression):
    """What has a name to show, and knows whether it may be NULL."""

    __slots__ = ()

    name: str
    nullable: bool


class Compound(Expression):
    """What is made of other expressions."""

    __slots__ = ()

    args: tuple[Expression, ...]

    def of(self, args: tuple[Expression, ...]) -> Expression:
        """The same of others."""
        raise NotImplementedError


class Reference(Named):
    """What reads a value from a row. Each kind of row that an expression can stand above has a class of its own."""

    __slots__ = ()

    column: int


@dataclass(frozen=True, slots=True)
class ColumnRef(Reference):
    """Column `column` of relation `relation` of the select that the expression stands in."""

    relation: int
    column: int
    name: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class GroupRef(Reference):
    """Column `column` of the group's row, as expressions above a grouping read it: the keys, then the aggregates."""

    column: int
    name: str
    nullable: bool = True


def _shown(value: int | float | str | bytes | None) -> object:
    return value.hex() if isinstance(value, float) else value


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expression):
    """A constant in its lane form: int for integers, booleans (0/1), dates (days), timestamps (microseconds), intervals
    and decimals (unscaled, of any size); float; str; bytes; None for NULL. An integer that is `written` so in the
    query, not computed, has only its own digits next to a decimal."""

    value: int | float | str | bytes | None
    written: bool = False

    def __eq__(self, other: object) -> bool:
        """By what a query shows of it: -0.0 is not 0.0 as text, and NaN is itself."""
        return type(other) is Literal and self.type == other.type and _shown(self.value) == _shown(other.value)

    def __hash__(self) -> int:
        return hash((self.type, _shown(self.value)))


NULL = Literal(VOID, None)
TRUE = Literal(BOOLEAN, 1)
FALSE = Literal(BOOLEAN, 0)


@dataclass(frozen=True, slots=True)
class Call(Compound):
    """Operator or function `name` (lower case; see scalar/functions) over arguments already cast to what it takes."""

    name: str
    args: tuple[Expression, ...]

    def of(self, args: tuple[Expression, ...]) -> Call:
        return Call(self.type, self.name, args)

    @property
    def record(self) -> Any:
        """What is known of the function, where it is not one that all databases have."""
        return None


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column of an order, by its position."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate: COUNT(*) has no argument. `filter` is the condition of FILTER (WHERE ...). What gathers its first
    argument does so by `order`: each the place of an argument, whether downwards, and whether NULLs come first.

    A row may stand for several: SUM of doubles then counts it `copies` times, and may have several arguments, all of
    them to be added. The sum itself is one double, or as many as are asked for, each by its number (`term`): the
    first is the sum rounded, the next is what that left of it, and so on. A percentile is the value that `share` of all
    values do not exceed."""

    function: str  # see freshet.aggregates
    args: tuple[Expression, ...]
    type: Type
    distinct: bool = False
    filter: Expression | None = None
    order: tuple[tuple[int, bool, bool], ...] = ()
    separator: str | bytes = ""
    copies: Expression | None = None
    term: int = 0
    share: float = 0.0

    @property
    def reads(self) -> tuple[Expression, ...]:
        """Everything that is evaluated on a row."""
        return (*self.args, *(e for e in (self.filter, self.copies) if e is not None))

    def mapped(self, change: Callable[[Expression], Expression]) -> AggregateCall:
        """The same aggregate of other expressions."""
        return replace(
            self,
            args=tuple(map(change, self.args)),
            filter=None if self.filter is None else change(self.filter),
            copies=None if self.copies is None else change(self.copies),
        )


def children(expression: Expression) -> tuple[Expression, ...]:
    return expression.args if isinstance(expression, Compound) else ()


def with_children(expression: Expression, parts: tuple[Expression, ...]) -> Expression:
    """The same expression of other children, as many as it has; itself where they are equal."""
    if not isinstance(expression, Compound) or parts == expression.args:
        return expression
    return expression.of(parts)


def walk(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in children(expression):
        yield from walk(child)


def references(expression: Expression) -> frozenset[int]:
    """The relations of the select it stands in that an expression reads."""
    return frozenset(e.relation for e in walk(expression) if isinstance(e, ColumnRef))


def transform(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Rebuilds bottom-up, each node passed through `change`."""
    return change(with_children(expression, tuple(transform(e, change) for e in children(expression))))
