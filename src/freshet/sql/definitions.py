"""What names in FROM can refer to: tables by their schema, views by their bound query. Names are case-insensitive.

Law: a view is bound to its inputs as they were when the view was created, so they must exist as long as the view
does: nothing is dropped before the views that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from freshet.errors import PlanError
from freshet.logical.query import AnyQuery, TableSchema
from freshet.logical.statements import DropTable, DropView
from freshet.scalar.functions.python import PythonFunction


@dataclass(slots=True)
class Definitions:
    tables: dict[str, TableSchema] = field(default_factory=dict)  # keys in lower case
    views: dict[str, AnyQuery] = field(default_factory=dict)  # in order of creation
    reads: dict[str, frozenset[str]] = field(default_factory=dict)  # the names in each view's FROM clauses
    recorded: set[str] | None = field(default=None, compare=False)  # names passed to `source`, if they are recorded
    functions: dict[str, PythonFunction] = field(default_factory=dict, compare=False)  # in Python, by name
    clock: Callable[[], int] | None = field(default=None, compare=False)  # reads the clock, where there is one

    def table(self, name: str) -> TableSchema | None:
        return self.tables.get(name.lower())

    def view(self, name: str) -> AnyQuery | None:
        return self.views.get(name.lower())

    def names(self) -> list[str]:
        return [schema.name for schema in list(self.tables.values())] + list(self.views)

    def copy(self) -> Self:
        return type(self)(
            dict(self.tables), dict(self.views), dict(self.reads), functions=self.functions, clock=self.clock
        )

    def source(self, name: str) -> AnyQuery | TableSchema | None:
        """The table or view that a name in FROM refers to."""
        if self.recorded is not None:
            self.recorded.add(name.lower())
        return self.view(name) or self.table(name)

    def add(self, schema: TableSchema) -> None:
        self.tables[schema.name.lower()] = schema

    def add_view(self, name: str, query: AnyQuery, reads: Iterable[str]) -> None:
        self.views[name.lower()], self.reads[name.lower()] = query, frozenset(reads)

    def drop(self, name: str) -> None:
        for kind in (self.tables, self.views, self.reads):
            kind.pop(name.lower(), None)

    def dropped(self, statement: DropTable | DropView) -> list[str]:
        """Everything that a statement drops: first the views that depend on the named one, directly or indirectly, the
        newest first. Without CASCADE there must be no such views."""
        table, name = isinstance(statement, DropTable), statement.name.lower()
        if name not in (self.tables if table else self.views):
            return []
        gone = {name}
        for view, read in self.reads.items():  # in order of creation: a view comes after what it reads
            if read & gone:
                gone.add(view)
        readers = [view for view in reversed(self.reads) if view in gone and view != name]
        if readers and not statement.cascade:
            kind, many = ("TABLE" if table else "VIEW"), len(readers) > 1
            who = f"views {', '.join(readers)} read" if many else f"view {readers[0]} reads"
            remedy = "drop them first, in this order" if many else "drop the view first"
            cascade = f"write DROP {kind} {statement.name} CASCADE"
            raise PlanError(f"{who} {kind.lower()} {statement.name}; {remedy}, or {cascade}")
        return [*readers, name]
