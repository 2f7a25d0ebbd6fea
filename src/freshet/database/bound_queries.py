"""Queries whose text was bound before.

Law: the query that a text is bound to follows from the text, the values of its parameters, and the definitions. Texts
of which it also depends on the moment (`Statement.varies`) are not kept, and when a definition has changed, nothing is.
So a query that is asked again is neither parsed, bound nor rewritten again, and its answer is the same. How it is
answered is decided each time, from the rows there are then.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import is_

from freshet.database.grouped import GroupedScan, grouped_scan
from freshet.database.scan import Scan, scan_of
from freshet.database.state import State
from freshet.database.stored import StoredViews
from freshet.database.via_duckdb import DuckDBQuery, duckdb_query
from freshet.logical.query import AnyQuery, is_query
from freshet.sql.definitions import Definitions
from freshet.sql.parse import bind_all
from freshet.sql.source import Statement

_MOST = 256  # texts
_LONGEST = 16_384  # characters of a text
_PLAIN = {int, str, bool, type(None)}  # types of values of which equal ones are the same


@dataclass(frozen=True)
class BoundQuery:
    """`stored`: the views that it reads as tables."""

    query: AnyQuery
    stored: frozenset[str] = frozenset()

    @cached_property
    def scan(self) -> Scan | None:
        return scan_of(self.query)

    @cached_property
    def grouped(self) -> GroupedScan | None:
        return grouped_scan(self.query)

    @cached_property
    def for_duckdb(self) -> DuckDBQuery | None:
        return duckdb_query(self.query)


class BoundQueries:
    """Called under the state's lock."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[Hashable, BoundQuery] = {}  # the one used last is at the end
        self._definitions: tuple[object, ...] = ()

    def bound(self, statement: Statement, inlined: set[str]) -> BoundQuery:
        catalog = self._state.catalog
        definitions = _definitions(catalog)
        if len(definitions) != len(self._definitions) or not all(map(is_, definitions, self._definitions)):
            self._kept.clear()
            self._definitions = definitions
        key = _key(statement, inlined)
        found = None if key is None else self._kept.pop(key, None)
        if found is None:
            stored = StoredViews.over(catalog, inlined)
            (query,) = bind_all([statement], stored)
            assert is_query(query)
            found = BoundQuery(query, frozenset(stored.stored))
        if key is not None and not statement.varies:
            if len(self._kept) >= _MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = found
        return found


def _definitions(catalog: Definitions) -> tuple[object, ...]:
    """The same objects in the same order as long as no definition changes."""
    kinds = (catalog.tables, catalog.views, catalog.functions)
    return tuple(part for kind in kinds for part in (*kind, *kind.values()))


def _key(statement: Statement, inlined: set[str]) -> Hashable | None:
    """What a query is found by; None if it is not kept."""
    source = statement.source
    if len(source.text) > _LONGEST:
        return None
    given = source.given or ()
    names, values = (tuple(given), tuple(given.values())) if isinstance(given, Mapping) else ((), tuple(given))
    if any(type(v) not in _PLAIN for v in values):
        return None
    types = tuple(type(v) for v in values)
    return source.text, statement.tokens[0].start, names, types, values, frozenset(inlined)
