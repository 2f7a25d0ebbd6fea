"""What keeping a query fresh costs, as counts of steps: the figures that guarantees are about.

Kernels count the counters they change and the keys they flip; the rest are rows that operators hand to one another, and
are counted where they are handed over, a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from freshet.state.arrays import Int64s


@dataclass(frozen=True, slots=True)
class Work:
    """Steps taken since a query was made."""

    counters: int = 0  # counters changed in join trees, and rows looked at in bags
    flipped: int = 0  # keys whose support came or went
    joined: int = 0  # joined rows that appeared or vanished
    checked: int = 0  # joined rows checked against what no edge expresses
    grouped: int = 0  # rows that entered groups
    distinct: int = 0  # rows counted by DISTINCT, UNION, EXCEPT and INTERSECT
    placed: int = 0  # rows placed in, or taken out of, an ordered index: O(log n) each
    fed: int = 0  # rows that nested queries have changed in what reads them

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Work) -> Work:
        return Work(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def steps(self) -> int:
        """All that was paid: every count but that of flips, which cause the counters' changes."""
        figures: tuple[int, ...] = astuple(self)
        return sum(figures) - self.flipped

    @classmethod
    def kept(cls, array: Int64s) -> Work:
        """As an array of the arena keeps it, in the order of the fields."""
        return cls(*array[:FIGURES].tolist())


#: Where kept arrays have each figure; before them stand the two that kernels count (state/tree_table).
JOINED, CHECKED, GROUPED, DISTINCT, PLACED, FED = range(2, 8)
FIGURES = 8


def total(parts: Iterable[Work]) -> Work:
    return sum(parts, Work())
