"""How a function treats NULL: everything that the compiler, the nullability of columns and the rewrites of outer joins
need to know, in one place, so that they cannot disagree.

Each property is a function of one flag per argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Flags = Sequence[bool]


@dataclass(frozen=True, slots=True)
class Nulls:
    #: Whether the result can be NULL, given which arguments can be.
    may: Callable[[Flags], bool]
    #: Whether the result is certainly NULL, given which arguments certainly are.
    surely: Callable[[Flags], bool]
    #: Whether one NULL argument suffices, whatever the others are: such a call need not be computed.
    decides: bool = False


def _always(flags: Flags) -> bool:
    return True


def _never(flags: Flags) -> bool:
    return False


def _first(flags: Flags) -> bool:
    return flags[0]


def _branches(flags: Flags) -> bool:
    """A condition of CASE that is NULL only passes the row on to the next one."""
    return any(flags[1::2]) or flags[-1]


#: NULL exactly where an argument is: most functions.
IF_ANY = Nulls(any, any, decides=True)
#: NULL where an argument is, and for some arguments that are not NULL, such as the logarithm of 0.
IF_ANY_OR_ELSE = Nulls(_always, any, decides=True)
#: NULL only if all arguments are: COALESCE.
IF_ALL = Nulls(all, all)
#: NULL exactly where the first argument is.
IF_FIRST = Nulls(_first, _first)
#: Never NULL: IS NULL.
NEVER = Nulls(_never, _never)
#: AND, OR: one argument may decide, so that NULL is certain only if all are NULL.
UNLESS_DECIDED = Nulls(any, all)
#: IN: NULL where the operand is, or where nothing matches and an element of the list is NULL.
UNLESS_FOUND = Nulls(any, _first)
#: CASE: depends on the branches.
OF_BRANCHES = Nulls(_branches, _never)
#: It handles NULLs itself; if no argument is NULL, neither is the result.
OWN = Nulls(any, _never)
