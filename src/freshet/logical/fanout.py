"""The number of joined rows that a change may affect, as a power of the tables' size n: the cost of enumerating them.

A tuple joins with at most one tuple of a neighbour whose primary key is part of the key between them, and with up to n
otherwise. So one tuple has at most n^k joined rows, where k is the number of such edges leading away from it, and never
more than the whole join has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Cost:
    """The power for a change of each relation."""

    powers: tuple[int, ...]

    def is_less(self, other: Cost) -> bool:
        """The worst change decides, then all together."""
        return (max(self.powers), sum(self.powers)) < (max(other.powers), sum(other.powers))

    def __str__(self) -> str:
        power = max(self.powers)
        size = "O(1)" if power == 0 else "O(n)" if power == 1 else f"O(n^{power})"
        return f"{size} (for {self.powers.count(power)} of {len(self.powers)} tables)"


def fanout(
    parents: Mapping[int, int], many: Callable[[int, int], bool], below: Mapping[int, Cost] | None = None
) -> Cost:
    """For a tree of relations; `many(here, there)`: whether a tuple here may meet many there. `below`: what it costs
    where a relation is itself the groups of a join: each of its rows may change a group, and each group once."""
    near: dict[int, list[int]] = {r: [] for r in parents}
    for r, parent in parents.items():
        if parent >= 0:
            near[r].append(parent)
            near[parent].append(r)

    @cache
    def away(here: int, source: int) -> int:
        return sum(many(here, n) + away(n, here) for n in near[here] if n != source)

    powers = {r: away(r, -1) for r in parents}
    whole = 1 + min(powers.values())
    found: list[int] = []
    for r, power in powers.items():
        inner: Sequence[int] = (0,) if below is None or r not in below else below[r].powers
        found += [max(p, min(p + power, whole)) for p in inner]
    return Cost(tuple(found))
