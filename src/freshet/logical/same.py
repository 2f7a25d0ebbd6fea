"""Recognizes equal queries without comparing their sources again and again.

Two queries are equal if they are equal apart from their sources, and the sources are equal one by one. So each query
gets a number, the same for equal ones, and is looked up with the numbers of its sources in place of the sources: so the
cost is proportional to its own size, not to that of everything below it.
"""

from __future__ import annotations

from freshet.logical.query import AnyQuery, Field, TableSchema, Values, children, with_children
from freshet.scalar.types import INT


class Numbers:
    def __init__(self) -> None:
        self._seen: dict[int, tuple[AnyQuery, int]] = {}  # by identity, which is stable because the query is kept alive
        self._known: dict[AnyQuery, int] = {}

    def of(self, query: AnyQuery) -> int:
        seen = self._seen.get(id(query))
        if seen is None:
            read = [s if isinstance(s, TableSchema) else _stand_in(self.of(s)) for s in children(query)]
            number = self._known.setdefault(with_children(query, read), len(self._known))
            seen = self._seen[id(query)] = query, number
        return seen[1]


def _stand_in(number: int) -> AnyQuery:
    return Values((), (Field(f"query {number}", INT),))
