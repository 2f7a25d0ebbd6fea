"""The catalog for a one-off query: views are tables whose rows are their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from freshet.logical.query import AnyQuery, TableSchema
from freshet.sql.definitions import Definitions


@dataclass(slots=True)
class StoredViews(Definitions):
    """`inlined`: the views that are nevertheless read as their queries; `stored`: those that are read as tables."""

    inlined: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)

    @classmethod
    def over(cls, catalog: Definitions, inlined: set[str]) -> Self:
        return cls(catalog.tables, catalog.views, catalog.reads, None, catalog.functions, catalog.clock, inlined)

    def copy(self) -> Self:
        """A query defines nothing: there is nothing to isolate."""
        return self

    def source(self, name: str) -> AnyQuery | TableSchema | None:
        key = name.lower()
        query = self.views.get(key)
        if query is None or key in self.inlined:
            return Definitions.source(self, name)
        self.stored.add(key)
        return TableSchema(name, query.fields)
