"""Choices: everything random about a case is one list of small numbers.

A seed generates the list; the same list generates the same case. So a case is shrunk by shrinking the list: parts are
removed and numbers reduced as long as the case still fails. 0 is always the simplest choice, and is used for missing
numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    def __init__(self, seed: int | None = None, made: Sequence[int] = ()) -> None:
        self._random = None if seed is None else random.Random(seed)
        self._given, self.made = list(made), list[int]()

    def below(self, bound: int) -> int:
        """A number from 0 on, less than the bound."""
        if self._random is not None:
            number = self._random.randrange(bound)
        else:
            at = len(self.made)
            number = min(self._given[at], bound - 1) if at < len(self._given) else 0
        self.made.append(number)
        return number

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        return self.below(100) >= 100 - percent

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """Different ones, in the order given."""
        count = least + self.below(min(most, len(options)) - least + 1)
        left = list(range(len(options)))
        chosen = sorted(left.pop(self.below(len(left))) for _ in range(count))
        return [options[i] for i in chosen]


def shrunk(made: list[int], fails: Callable[[list[int]], bool], tries: int) -> list[int]:
    """The shortest, then least, failing list within a number of tries."""
    left = tries

    def better(candidate: list[int]) -> bool:
        nonlocal left, made
        if left <= 0 or candidate == made:
            return False
        left -= 1
        if fails(candidate):
            made = candidate
            return True
        return False

    changed = True
    while changed and left > 0:
        changed = False
        size = max(len(made) // 2, 1)
        while size:
            at = 0
            while at < len(made):
                if better(made[:at] + made[at + size :]):
                    changed = True
                else:
                    at += size
            size //= 2
        for at in range(len(made)):
            for number in (0, 1, made[at] // 2 if at < len(made) else 0):
                if at < len(made) and number < made[at] and better([*made[:at], number, *made[at + 1 :]]):
                    changed = True
                    break
    return made
