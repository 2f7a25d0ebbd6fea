"""The comparison operators of SQL that are NULL if either side is: = <> < <= > >=. The value of each is its spelling in
SQL and in the JSON of plans."""

from __future__ import annotations

from enum import StrEnum


class ComparisonOperator(StrEnum):
    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="

    @property
    def function(self) -> str:
        """The name of the function that computes it."""
        return _FUNCTIONS[self]

    @property
    def flipped(self) -> ComparisonOperator:
        """The equivalent operator with the two sides exchanged."""
        return _FLIPPED.get(self, self)

    @property
    def negated(self) -> ComparisonOperator:
        """The operator that is true exactly where this one is false."""
        return _NEGATED[self]

    @property
    def is_order(self) -> bool:
        """Whether it compares by order, rather than testing for equality."""
        return self in _FLIPPED

    @property
    def is_upward(self) -> bool:
        """Whether the left side is the lower one."""
        return self in (ComparisonOperator.LESS, ComparisonOperator.AT_MOST)

    @property
    def is_strict(self) -> bool:
        """Whether it is false for equal values."""
        return self in (ComparisonOperator.UNEQUAL, ComparisonOperator.LESS, ComparisonOperator.GREATER)


_FUNCTIONS = {
    ComparisonOperator.EQUAL: "eq",
    ComparisonOperator.UNEQUAL: "ne",
    ComparisonOperator.LESS: "lt",
    ComparisonOperator.AT_MOST: "le",
    ComparisonOperator.GREATER: "gt",
    ComparisonOperator.AT_LEAST: "ge",
}
_FLIPPED = {
    ComparisonOperator.LESS: ComparisonOperator.GREATER,
    ComparisonOperator.AT_MOST: ComparisonOperator.AT_LEAST,
    ComparisonOperator.GREATER: ComparisonOperator.LESS,
    ComparisonOperator.AT_LEAST: ComparisonOperator.AT_MOST,
}
_NEGATED = {
    ComparisonOperator.EQUAL: ComparisonOperator.UNEQUAL,
    ComparisonOperator.UNEQUAL: ComparisonOperator.EQUAL,
    ComparisonOperator.LESS: ComparisonOperator.AT_LEAST,
    ComparisonOperator.AT_MOST: ComparisonOperator.GREATER,
    ComparisonOperator.GREATER: ComparisonOperator.AT_MOST,
    ComparisonOperator.AT_LEAST: ComparisonOperator.LESS,
}
