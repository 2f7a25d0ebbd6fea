"""What names in FROM may mean: tables by their schema, views by their bound query. Names ignore case."""

from __future__ import annotations

from dataclasses import dataclass, field

from freshet.sql.bound import AnyQuery, TableSchema


@dataclass(slots=True)
class Catalog:
    tables: dict[str, TableSchema] = field(default_factory=dict)  # keys in lower case
    views: dict[str, AnyQuery] = field(default_factory=dict)

    def table(self, name: str) -> TableSchema | None:
        return self.tables.get(name.lower())

    def view(self, name: str) -> AnyQuery | None:
        return self.views.get(name.lower())

    def names(self) -> list[str]:
        return [schema.name for schema in self.tables.values()] + list(self.views)

    def copy(self) -> Catalog:
        return Catalog(dict(self.tables), dict(self.views))

    def add(self, schema: TableSchema) -> None:
        self.tables[schema.name.lower()] = schema

    @classmethod
    def from_ddl(cls, text: str) -> Catalog:
        """The tables and views that CREATE statements define."""
        from freshet.sql.parse import define

        return define(text, cls())
