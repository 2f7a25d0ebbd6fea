"""What a subquery reads of the queries around it, and what binding learns of that.

A subquery is first bound as if keys could find its rows for each row around it. Where it reads that row in a place
where only its own relations can be read, it is bound again with those columns lent to it (`Unasked`). What a subquery
needs is remembered for whenever the same text is bound again (`Learnt`), so each time it is bound again it needs a
column that it was never lent before, and binding ends after as many times as there are columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from freshet.errors import UnsupportedError
from freshet.scalar.expression import ColumnRef, Expression, transform, walk

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


def outer_columns(expressions: Iterable[Expression]) -> list[ColumnRef]:
    """The columns of enclosing queries that expressions read, each once."""
    found = (e for x in expressions for e in walk(x) if isinstance(e, ColumnRef) and e.outer)
    return list(dict.fromkeys(found))


def inward(expression: Expression) -> Expression:
    """An expression as the enclosing query reads it."""
    return transform(expression, lambda e: replace(e, outer=e.outer - 1) if isinstance(e, ColumnRef) and e.outer else e)
