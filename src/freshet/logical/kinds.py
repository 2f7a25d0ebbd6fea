"""Kinds of joins and of set operations, each with what it does: whoever keeps or plans one asks it, not its name."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from freshet.state.arrays import Int64s


class JoinKind(StrEnum):
    """What a row on one side of a join does for the row on the other, which it is hung on."""

    INNER = "inner"  # the two make a row
    LEFT = "left"  # the two make a row, and without it there is one of NULLs
    SEMI = "semi"  # lets it exist
    ANTI = "anti"  # lets it not exist

    @property
    def filters(self) -> bool:
        """Whether it only decides which rows there are, and shows nothing."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)

    @property
    def turns(self) -> bool:
        """Whether a row that comes may take rows of the answer away."""
        return self in (JoinKind.LEFT, JoinKind.ANTI)

    @property
    def written(self) -> str:
        """As SQL has it."""
        return _WRITTEN[self]


_WRITTEN = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.SEMI: "EXISTS / IN",
    JoinKind.ANTI: "NOT EXISTS / NOT IN",
}


class SetKind(StrEnum):
    UNION = "union"
    EXCEPT = "except"
    INTERSECT = "intersect"

    def copies(self, every: bool, left: Int64s, right: Int64s) -> Int64s:
        """How often rows with these counts on either side are in the answer; once at most, unless `every` copy is."""
        found: Int64s
        if self is SetKind.UNION:
            found = np.sign(left + right)
        elif self is SetKind.EXCEPT:
            found = np.maximum(left - right, 0) if every else np.sign(left) * (right == 0)
        else:
            found = np.minimum(left, right) if every else np.sign(np.minimum(left, right))
        return found

    def nullable(self, left: bool, right: bool) -> bool:
        """Whether a column is, which is so on either side."""
        if self is SetKind.UNION:
            return left or right
        return left and (self is SetKind.EXCEPT or right)
