"""CREATE and DROP of tables and views; each statement takes full effect, also on disk, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from freshet.budget import Budget
from freshet.database.access import Access
from freshet.database.indexing import change_index
from freshet.database.kept_view import KeptView
from freshet.database.state import State
from freshet.engine.table import Table
from freshet.errors import SqlError, brief
from freshet.logical.query import with_watermark
from freshet.logical.statements import AlterTable, CreateIndex, CreateTable, CreateView, DropIndex, DropTable, DropView
from freshet.plans import Plan, codec
from freshet.scalar.functions.python import PythonFunction
from freshet.sql.python_function import python_function
from freshet.state.allocators import give_back

_MUCH = 1 << 22  # dropped bytes from which memory is returned to the system


class Ddl:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._state = access.state
        self._views = access.views

    def create_table(self, statement: CreateTable) -> None:
        state, schema = self._state, statement.schema
        name = schema.name.lower()
        with self._access.changing():
            there = name in state.core.tables
            old = _stored(state, name) if there and statement.replace else {}
            if there and not old:
                if statement.if_not_exists:
                    return
                raise SqlError(f"table {schema.name} already exists; drop it first, or choose another name")
            if name in self._views.named:
                raise SqlError(f"view {schema.name} already exists; choose another name")
            if old:
                state.catalog.dropped(DropTable(schema.name))  # which refuses if views read it
            made = [(each, state.number()) for each in with_watermark(schema)]
            try:
                with state.lock, self._views.defining():
                    for gone in old:
                        state.take_table(gone)
                    for each, number in made:
                        state.add_table(each, number)
            except BaseException:
                for _, number in made:
                    state.core.arena.drop(f"table{number}/")
                raise
            with state.lock:
                for table in old.values():
                    table.scope.drop()

    def alter_table(self, statement: AlterTable) -> None:
        with self._access.changing():
            if self._access.store is not None:
                self._access.store.stay()  # rewriting goes through slots
            with self._state.lock:
                self._views.alter(statement.schema, statement.columns)

    def create_view(self, name: str, query: str | Plan, replace: bool = False) -> KeptView:
        if type(name) is not str or not name:
            raise SqlError(f"{brief(name)} is no name of a view; give a text")
        with self._access.changing():
            key = name.lower()
            if key in self._state.core.tables or (key in self._views.named and not replace):
                kind = "view" if key in self._views.named else "table"
                raise SqlError(f"{kind} {name} already exists; drop it first, or choose another name")
            with self._access.interruptible(Budget()):
                return self._views.create(name, query)

    def create_function(self, name: str, body: Callable[..., Any], returns: str, deterministic: bool) -> None:
        """Replaces a function of that name if no view calls it; the same function may be given again."""
        with self._access.changing():
            function = python_function(name, body, returns, deterministic)
            functions = self._state.catalog.functions
            old = functions.get(name.lower())
            callers = [] if old is None else [view.name for view in self._views.named.values() if old in _called(view)]
            if callers and old is not None:
                if (old.body, old.returns, old.deterministic) == (body, function.returns, deterministic):
                    return
                raise SqlError(
                    f"views {', '.join(callers)} call function {name}; drop them first, or choose another name"
                )
            functions[name.lower()] = function

    def create_named(self, statement: CreateView) -> KeptView:
        """CREATE MATERIALIZED VIEW."""
        known = self._views.named.get(statement.name.lower())
        if known is not None and statement.if_not_exists:
            return known
        return self.create_view(statement.name, statement.sql, statement.replace)

    def index(self, statement: CreateIndex | DropIndex) -> None:
        with self._access.changing(), self._access.interruptible(Budget()):
            change_index(self._views, self._state, statement)

    def drop(self, statement: DropTable | DropView) -> None:
        state = self._state
        with self._access.changing():
            names = state.catalog.dropped(statement)  # binding has refused missing names
            tables = {
                n: table for name in names if name in state.core.tables for n, table in _stored(state, name).items()
            }
            with state.lock:
                with self._views.defining():
                    views = [self._views.take(name) for name in names if name not in tables]
                    for name in tables:
                        state.take_table(name)
                before = state.core.arena.nbytes()
                for view, operator in views:
                    self._views.end(view, operator)
                for table in tables.values():
                    table.scope.drop()
                if before - state.core.arena.nbytes() > _MUCH:
                    give_back()


def _stored(state: State, name: str) -> dict[str, Table]:
    """A table and what is stored with it, by name."""
    names = [schema.name.lower() for schema in with_watermark(state.schema(name))]
    return {each: state.core.tables[each] for each in names}


def _called(view: KeptView) -> list[PythonFunction]:
    return codec.functions_in(view.plan.root)
