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
    """A typed value with a name to display, which may be nullable."""

    __slots__ = ()

    name: str
    nullable: bool


class Compound(Expression):
    """A node that is composed of other expressions."""

    __slots__ = ()

    args: tuple[Expression, ...]

    def of(self, args: tuple[Expression, ...]) -> Expression:
        """The same node over other children."""
        raise NotImplementedError


class Reference(Named):
    """A reference that reads a value from a row. Each kind of row that an expression can read has a class of its
    own."""

    __slots__ = ()

    column: int


@dataclass(frozen=True, slots=True)
class ColumnRef(Reference):
    """Column `column` of relation `relation` of the select that contains the expression."""

    relation: int
    column: int
    name: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class GroupRef(Reference):
    """Column `column` of the group's row, which expressions above a grouping read: first the keys, then the
    aggregates."""

    column: int
    name: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Variable(Named):
    """A parameter of a function of elements, such as x in FILTER(a, x -> x > 0): `number` is its place among all that
    are around it."""

    number: int
    name: str
    nullable: bool = True


def _shown(value: int | float | str | bytes | None) -> object:
    return value.hex() if isinstance(value, float) else value


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expression):
    """A constant in its lane form: int for integers, booleans (0/1), dates (days), timestamps (microseconds), intervals
    and decimals (unscaled, of any size); float; str; bytes; None for NULL. An integer that is `written` in the query,
    not computed, has only its own digits when combined with a decimal."""

    value: int | float | str | bytes | None
    written: bool = False

    def __eq__(self, other: object) -> bool:
        """Compares what a query can show: -0.0 differs from 0.0 as text, and NaN equals itself."""
        return type(other) is Literal and self.type == other.type and _shown(self.value) == _shown(other.value)

    def __hash__(self) -> int:
        return hash((self.type, _shown(self.value)))


NULL = Literal(VOID, None)
TRUE = Literal(BOOLEAN, 1)
FALSE = Literal(BOOLEAN, 0)


@dataclass(frozen=True, slots=True)
class Call(Compound):
    """Operator or function `name` (lower case; see scalar/functions) over arguments already cast to the types it
    takes."""

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
    """One aggregate: COUNT(*) has no argument. `filter` is the condition of FILTER (WHERE ...). Aggregates that collect
    their first argument do so in the order `order`: for each key the position of an argument, whether it is descending,
    and whether NULLs come first.

    A row may represent several: SUM of doubles then counts it `copies` times, and may have several arguments, which are
    all added. The sum is one double, or several, each selected by its number (`term`): the first is the rounded sum,
    the next is the rounded rest, and so on. A percentile is the value that `share` of all values do not exceed."""

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
        """All expressions that are evaluated on a row."""
        return (*self.args, *(e for e in (self.filter, self.copies) if e is not None))

    def mapped(self, change: Callable[[Expression], Expression]) -> AggregateCall:
        """The same aggregate over other expressions."""
        return replace(
            self,
            args=tuple(map(change, self.args)),
            filter=None if self.filter is None else change(self.filter),
            copies=None if self.copies is None else change(self.copies),
        )


def children(expression: Expression) -> tuple[Expression, ...]:
    return expression.args if isinstance(expression, Compound) else ()


def with_children(expression: Expression, parts: tuple[Expression, ...]) -> Expression:
    """The same expression over other children, of the same number; the expression itself if they are equal."""
    if not isinstance(expression, Compound) or parts == expression.args:
        return expression
    return expression.of(parts)


def walk(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in children(expression):
        yield from walk(child)


def references(expression: Expression) -> frozenset[int]:
    """The relations of its own select that an expression reads."""
    return frozenset(e.relation for e in walk(expression) if isinstance(e, ColumnRef))


def transform(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Rebuilds the expression bottom-up, passing each node through `change`."""
    return change(with_children(expression, tuple(transform(e, change) for e in children(expression))))
