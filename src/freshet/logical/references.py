"""References that exist only before planning: the value each of them reads becomes a column of a relation.

Binding eliminates all but `OuterRef`, and decorrelation eliminates those. `ColumnRef` and `GroupRef`
(scalar/expression.py) remain.
"""

from __future__ import annotations

from dataclasses import dataclass

from freshet.scalar.expression import Reference


@dataclass(frozen=True, slots=True)
class OuterRef(Reference):
    """A value of the row that a subquery is computed for: argument `column` of the nearest `Apply` around it."""

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
