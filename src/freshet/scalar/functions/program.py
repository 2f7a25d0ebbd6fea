"""Regular expressions as the programs that `state.regex` runs.

A pattern's code names its sets by their ranges and saves every group. A program numbers its sets, saves only the
requested groups, and knows which bytes a match can begin with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from freshet.state import regex
from freshet.state.arrays import Bools, Int64s

#: Sets of characters are sorted, disjoint ranges of code points, both ends included.
Ranges = tuple[tuple[int, int], ...]
#: Instructions of `state.regex`; a SET has its ranges, and 2 g and 2 g + 1 are the slots of group g.
Code = tuple[tuple[int, Any, int], ...]


@dataclass(frozen=True)
class LookAround:
    """A look-around: whether it looks behind, its code, which looks ahead by reading backwards, and how many characters
    it reads at least and at most."""

    behind: bool
    code: Code
    least: int
    most: int


_ASCII = 128


@dataclass(frozen=True)
class Program:
    code: Int64s
    ascii: Bools  # [sets, 128]
    starts: Int64s  # the first of each set's ranges, and the end
    ranges: Int64s
    leads: Bools  # the bytes a match can begin with; empty if it may be empty
    slots: int
    looks: Int64s  # of each look-around, in order: whether it looks behind, its place in the code, least and most

    @property
    def parts(self) -> tuple[Int64s, Bools, Int64s, Int64s, Bools, int, Int64s]:
        """The form that kernels take."""
        return self.code, self.ascii, self.starts, self.ranges, self.leads, self.slots, self.looks


def program(code: Code, groups: Sequence[int], looks: Sequence[LookAround] = ()) -> Program:
    """The program that finds the code's match, slots 0 and 1, and then the spans of the requested groups, two slots
    each."""
    slots = {2 * g + end: 2 * (i + 1) + end for i, g in enumerate(groups) for end in (0, 1)}
    whole: Code = ((regex.SAVE, 0, 0), *code, (regex.SAVE, 1, 0), (regex.MATCH, 0, 0))
    sets: dict[Ranges, int] = {}
    lines, places, every = [], [], whole
    for look in looks:
        places.append((int(look.behind), len(every), look.least, look.most))
        every = (*every, *look.code, (regex.MATCH, 0, 0))
    for place, (operation, x, y) in enumerate(every):
        if operation == regex.SET:
            lines.append((operation, sets.setdefault(x, len(sets)), 0))
        elif operation == regex.SAVE and 0 < place < len(whole) - 2:
            lines.append((regex.JUMP, 1, 0) if x not in slots else (operation, slots[x], 0))
        else:
            lines.append((operation, x, y))
    starts = np.cumsum([0, *map(len, sets)])
    ranges = np.array([r for s in sets for r in s], np.int64).reshape(-1, 2)
    ascii_ = np.zeros((len(sets), _ASCII), np.bool_)
    for number, members in enumerate(sets):
        for low, high in members:
            ascii_[number, low : min(high + 1, _ASCII)] = True
    around = np.array(places, np.int64).reshape(-1, 4)
    return Program(np.array(lines, np.int64), ascii_, starts, ranges, _leads(whole), 2 + 2 * len(groups), around)


def _leads(code: Code) -> Bools:
    """The possible first bytes of a match, whatever anchors come before."""
    leads: npt.NDArray[np.bool_] = np.zeros(256, np.bool_)
    seen, left = set(), [0]
    while left:
        at = left.pop()
        if at in seen:
            continue
        seen.add(at)
        operation, x, y = code[at]
        if operation == regex.MATCH:
            return np.zeros(0, np.bool_)
        if operation == regex.SET:
            for low, high in x:
                leads[_lead(low) : _lead(high) + 1] = True
        elif operation == regex.FORK:
            left += [at + x, at + y]
        else:
            left.append(at + x if operation == regex.JUMP else at + 1)
    leads[0x80:0xC0] = False  # continuation bytes do not begin a character
    return leads


def _lead(code: int) -> int:
    """The first byte of a character; surrogates, which do not occur in texts, are treated like other characters."""
    return chr(code).encode("utf-8", "surrogatepass")[0]
