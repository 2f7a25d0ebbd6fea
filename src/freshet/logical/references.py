"""References that exist only while a query is bound: what each of them reads becomes a column of a relation.

`ColumnRef` and `GroupRef` (scalar/expression.py) are the two that a bound query has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from freshet.scalar.expression import ColumnRef, Expression, Reference, transform, walk


@dataclass(frozen=True, slots=True)
class OuterRef(Reference):
    """Column `column` of relation `relation` of an enclosing query, `depth` queries further out: 1 or more."""

    depth: int
    relation: int
    column: int
    name: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class BesideRef(Reference):
    """Column `column` of a relation that is joined to the group's row, above a grouping. Such relations are numbered by
    themselves."""

    relation: int
    column: int
    name: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class GroupingRef(Reference):
    """Whether the row's set of keys leaves out key `column`: 1 where it does, else 0."""

    column: int
    name: str = "grouping"
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class WindowRef(Reference):
    """The value of window function `column` of the select."""

    column: int
    name: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class ValueRef(Reference):
    """Column `column` of a subquery's own row, as the values of its select list read it."""

    column: int
    name: str
    nullable: bool = True


def outer_columns(expressions: Iterable[Expression]) -> list[OuterRef]:
    """The columns of enclosing queries that expressions read, each once."""
    return list(dict.fromkeys(e for x in expressions for e in walk(x) if isinstance(e, OuterRef)))


def outward(column: ColumnRef | OuterRef) -> OuterRef:
    """A column as a query inside the one that reads it reads it."""
    depth = column.depth + 1 if isinstance(column, OuterRef) else 1
    return OuterRef(column.type, depth, column.relation, column.column, column.name, column.nullable)


def inward(expression: Expression) -> Expression:
    """An expression as the enclosing query reads it."""

    def read(e: Expression) -> Expression:
        if not isinstance(e, OuterRef):
            return e
        if e.depth > 1:
            return replace(e, depth=e.depth - 1)
        return ColumnRef(e.type, e.relation, e.column, e.name, e.nullable)

    return transform(expression, read)
