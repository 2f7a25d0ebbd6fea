"""SQL statements, run one after the other: each goes to those who define, change or answer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from freshet.budget import Budget
from freshet.database import dml
from freshet.database.access import Access
from freshet.database.asking import Asking
from freshet.database.ddl import Ddl
from freshet.database.transaction import Transaction
from freshet.database.transactions import Transactions
from freshet.engine.table import RowChange
from freshet.logical.query import AnyQuery, CreateTable, CreateView, Delete, DropTable, DropView, Insert, Update
from freshet.sql.parse import asks_only, bind_all
from freshet.sql.source import Source


class Statements:
    def __init__(self, access: Access, ddl: Ddl, transactions: Transactions, asking: Asking) -> None:
        self._access, self._ddl, self._transactions, self._asking = access, ddl, transactions, asking
        self._state = access.state

    def execute(self, sql: str, seconds: float | None, rows: int | None) -> Any:
        """What the last statement gives: a transaction, a view, a table, or None."""
        for name, most in (("seconds", seconds), ("rows", rows)):
            if most is not None and not most > 0:
                raise ValueError(f"{name} is {most!r}; give a number above 0, or leave it out")
        statements, result = Source(sql).statements(), None

        def budget() -> AbstractContextManager[Budget]:
            return self._access.interruptible(Budget(seconds, rows=rows, remedy="ask for less, or allow more"))

        if asks_only(statements):
            for statement in statements:
                with budget():
                    result = self._asking.ask(statement)
            return result
        with self._access.lock:
            self._access.check_open()
            bound = bind_all(statements, self._state.catalog)
            for i, each in enumerate(bound):
                with budget(), self._transactions.keeping(i + 1 < len(bound)):
                    result = self._execute(each)
            return result

    def _execute(self, statement: Any) -> Any:
        if isinstance(statement, AnyQuery):
            return self._asking.answer(statement)
        self._access.check_writable()
        match statement:
            case CreateTable():
                return self._ddl.create_table(statement)
            case DropTable() | DropView():
                return self._ddl.drop(statement)
            case CreateView():
                return self._ddl.create_named(statement)
            case Insert():
                return self._insert(statement)
            case Delete(query=query) | Update(query=query) if query is not None:
                schema = self._state.catalog.tables[statement.table.lower()]
                rows = dml.replaced(statement, schema, self._asking.answer(query))
                return self._transactions.apply({statement.table: rows})
            case Delete() | Update():
                return self._transactions.transact(lambda: self._in_place(statement))
        raise AssertionError(f"no way to execute {statement}")

    def _insert(self, statement: Insert) -> Transaction:
        schema = self._state.catalog.tables[statement.table.lower()]
        if statement.query is None:
            return self._transactions.apply({statement.table: dml.inserted(statement, schema)})
        names = [schema.fields[i].name for i in statement.columns]
        return self._transactions.apply({statement.table: self._asking.answer(statement.query).rename_columns(names)})

    def _in_place(self, statement: Delete | Update) -> dict[str, RowChange]:
        """What a statement changes in the rows of its table."""
        name = statement.table.lower()
        table = self._state.core.tables[name]
        if isinstance(statement, Delete):
            return {name: dml.deleted(statement, table)}
        return {name: dml.updated(statement, self._state.catalog.tables[name], table)}
