"""What a function does with NULL: as much as the compiler, the nullability of columns and the rewrites of outer joins
need to know, in one place, so that they cannot disagree.

Each answer is a function of one flag per argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Flags = Sequence[bool]


@dataclass(frozen=True, slots=True)
class Nulls:
    #: Whether it can be NULL, given which of its arguments can be.
    may: Callable[[Flags], bool]
    #: Whether it is certainly NULL, given which of its arguments certainly are.
    surely: Callable[[Flags], bool]
    #: Whether one NULL argument is enough, whatever the others are: such a call need not be computed.
    decides: bool = False


def _always(flags: Flags) -> bool:
    return True


def _never(flags: Flags) -> bool:
    return False


def _first(flags: Flags) -> bool:
    return flags[0]


def _branches(flags: Flags) -> bool:
    """A condition of CASE that is NULL only sends the row on."""
    return any(flags[1::2]) or flags[-1]


#: NULL where an argument is, and nowhere else: most functions.
IF_ANY = Nulls(any, any, decides=True)
#: NULL where an argument is, and for some arguments that are not, as the logarithm of 0.
IF_ANY_OR_ELSE = Nulls(_always, any, decides=True)
#: NULL only where all arguments are: COALESCE.
IF_ALL = Nulls(all, all)
#: NULL where the first argument is, and nowhere else.
IF_FIRST = Nulls(_first, _first)
#: Never NULL: IS NULL.
NEVER = Nulls(_never, _never)
#: AND, OR: one argument may decide, so that NULL is certain only where all are NULL.
UNLESS_DECIDED = Nulls(any, all)
#: IN: NULL where the operand is, or where nothing is found and something in the list is NULL.
UNLESS_FOUND = Nulls(any, _first)
#: CASE: what the branches are.
OF_BRANCHES = Nulls(_branches, _never)
#: It looks at NULLs itself; without one among its arguments it is not NULL.
OWN = Nulls(any, _never)
