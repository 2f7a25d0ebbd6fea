"""The cost of maintaining a query, in counted steps: the figures that guarantees bound.

Kernels count the counters they change, the keys they flip, and the nodes of ordered structures they visit; all other
steps are rows passed from one operator to the next, counted a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from freshet.state.arrays import Int64s


@dataclass(frozen=True, slots=True)
class Work:
    """Steps taken since a query was created."""

    counters: int = 0  # counters changed in join trees, and rows looked at in bags
    flipped: int = 0  # keys whose support appeared or disappeared
    joined: int = 0  # joined rows that appeared or disappeared
    checked: int = 0  # joined rows checked against what no edge expresses
    grouped: int = 0  # rows that entered groups
    distinct: int = 0  # rows counted by DISTINCT, UNION, EXCEPT and INTERSECT
    placed: int = 0  # nodes of ordered structures visited: O(log n) for each row placed, taken out or looked for
    fed: int = 0  # rows that nested queries changed in the queries that read them

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Work) -> Work:
        return Work(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def steps(self) -> int:
        """The sum of all counts except flips, which cause the changes of counters."""
        figures: tuple[int, ...] = astuple(self)
        return sum(figures) - self.flipped

    @classmethod
    def kept(cls, array: Int64s) -> Work:
        """Reads an array of the arena, in the order of the fields."""
        return cls(*array[:FIGURES].tolist())


#: The position of each count in stored arrays, after the two that kernels count (state/tree_table).
JOINED, CHECKED, GROUPED, DISTINCT, PLACED, FED = range(2, 8)
FIGURES = 8


def total(parts: Iterable[Work]) -> Work:
    return sum(parts, Work())
