"""What a subquery reads of the queries around it, and what binding learns of that.

A subquery is first bound as if keys could find its rows for each row around it. Where it reads that row in a place
where only its own relations can be read, it is bound again with those columns lent to it (`Unasked`). What a subquery
needs is remembered for whenever the same text is bound again (`Learnt`), so each time it is bound again it needs a
column that it was never lent before, and binding ends after as many times as there are columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from freshet.errors import UnsupportedError

#: A column as written: its name, and the qualifier before it.
Name = tuple[str, str | None]


@dataclass(slots=True)
class Learnt:
    """By the identity of a subquery's node: the columns it needs to be lent, and whether it has to be a query of its
    own because no arm can be made of it."""

    asks: dict[int, dict[Name, None]] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)


class ApartError(UnsupportedError):
    """A subquery reads the select around it in a way that no arm of that select can. It is made a query of its own;
    where there is no subquery, that is a refusal."""
