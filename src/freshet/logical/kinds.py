"""Kinds of joins and of set operations with their behaviour, so that no other code compares their names."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from freshet.state.arrays import Int64s


class JoinKind(StrEnum):
    """The effect of a child row on the parent row it joins with."""

    INNER = "inner"  # each pair is a row
    LEFT = "left"  # each pair is a row; a parent without a child has a row with NULLs
    SEMI = "semi"  # the parent is in the answer if it has a child
    ANTI = "anti"  # the parent is in the answer if it has no child

    @property
    def filters(self) -> bool:
        """Whether it only filters parent rows and adds no columns."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)

    @property
    def turns(self) -> bool:
        """Whether inserting a child row can remove rows from the answer."""
        return self in (JoinKind.LEFT, JoinKind.ANTI)

    @property
    def written(self) -> str:
        """Its spelling in SQL."""
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
        """The number of copies in the answer of rows with these counts on either side; at most one, unless `every` copy
        counts."""
        counts: Int64s
        if self is SetKind.UNION:
            counts = np.sign(left + right)
        elif self is SetKind.EXCEPT:
            counts = np.maximum(left - right, 0) if every else np.sign(left) * (right == 0)
        else:
            counts = np.minimum(left, right) if every else np.sign(np.minimum(left, right))
        return counts

    def nullable(self, left: bool, right: bool) -> bool:
        """Whether a column is, which is so on either side."""
        if self is SetKind.UNION:
            return left or right
        return left and (self is SetKind.EXCEPT or right)
