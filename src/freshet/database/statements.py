"""SQL statements, run one after the other: each is passed to the part that defines, changes or answers.

Law: a text is bound as a whole before any of it runs; each statement sees the definitions of those before it. So an
error that is visible in the text changes nothing. A statement that fails while it runs is undone by itself, and the
statements before it stay applied, unless the text itself has opened a transaction around them. The error says which
statement failed, and what was kept.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from numbers import Real
from typing import Any

import pyarrow as pa

from freshet.budget import Budget
from freshet.database import dml
from freshet.database.access import Access
from freshet.database.ddl import Ddl
from freshet.database.inspecting import Inspecting, Inspection, changes_nothing, inspects, read_inspection
from freshet.database.one_off import OneOffQueries
from freshet.database.transaction import Transaction
from freshet.database.transactions import Transactions
from freshet.engine.table import RowChange
from freshet.errors import FreshetError, UnsupportedError
from freshet.logical.query import is_query
from freshet.logical.statements import (
    AlterTable,
    Bracket,
    CreateIndex,
    CreateTable,
    CreateView,
    Delete,
    DropIndex,
    DropTable,
    DropView,
    Insert,
    Update,
)
from freshet.logical.statements import Statement as Bound
from freshet.sql.parse import bind_statement
from freshet.sql.source import Statement

Limit = Callable[[], AbstractContextManager[Budget]]


class Statements:
    def __init__(self, access: Access, ddl: Ddl, transactions: Transactions, one_off: OneOffQueries) -> None:
        self._access = access
        self._ddl = ddl
        self._transactions = transactions
        self._one_off = one_off
        self._state, self._inspecting = access.state, Inspecting(access, one_off)

    def execute(self, statements: list[Statement], seconds: float | None, rows: int | None) -> Any:
        """What the last statement gives: a transaction, a view, a table, or None."""
        for name, most in (("seconds", seconds), ("rows", rows)):
            if most is not None and (not isinstance(most, Real) or not most > 0):
                raise ValueError(f"{name} is {most!r}; give a number above 0, or leave it out")

        def budget() -> AbstractContextManager[Budget]:
            return self._access.interruptible(Budget(seconds, rows=rows, remedy="ask for less, or raise the limit"))

        if changes_nothing(statements):
            return self._ask_all(statements, budget)
        with self._access.lock:
            self._access.check_open()
            return self._run_all(statements, budget)

    def _ask_all(self, statements: list[Statement], budget: Limit) -> pa.Table | None:
        """Queries do not need the writer's lock."""
        answer = None
        for number, statement in enumerate(statements):
            try:
                with budget():
                    answer = self._answer(statement)
            except FreshetError as e:
                _add_note(e, number, len(statements), "queries change nothing")
                raise
        return answer

    def _answer(self, statement: Statement) -> pa.Table:
        return (self._inspecting.answer if inspects(statement) else self._one_off.ask)(statement)

    def _run_all(self, statements: list[Statement], budget: Limit) -> Any:
        bound, session, state = self._bound(statements), self._access.session, self._state
        if len(bound) > 1 and any(isinstance(each, AlterTable) for each in bound):
            raise UnsupportedError("ALTER TABLE in a text of several statements is not supported; run it alone")
        result, opened, begun_at = None, None, state.version
        for number, (statement, each) in enumerate(zip(statements, bound, strict=True)):
            try:
                with budget(), self._transactions.keeping(number + 1 < len(bound)):
                    asks = is_query(each) or isinstance(each, Inspection)
                    result = self._answer(statement) if asks else self._execute(each)
            except BaseException as e:
                kept = _kept(number)
                if session.mine and opened is not None:
                    session.rollback()
                    kept = f"the transaction that statement {opened + 1} began was rolled back; {_kept(opened)}"
                elif session.mine:
                    kept += ", in the transaction that is still open"
                elif state.version > begun_at:
                    kept += f", up to version {state.version}"
                if isinstance(e, FreshetError):
                    _add_note(e, number, len(statements), kept)
                raise
            if isinstance(each, Bracket):
                opened = number if each is Bracket.BEGIN else None
        return result

    def _bound(self, statements: list[Statement]) -> list[Bound | Inspection]:
        seen, bound = self._state.catalog.copy(), list[Bound | Inspection]()
        for number, statement in enumerate(statements):
            try:
                read = read_inspection if inspects(statement) else bind_statement
                bound.append(read(statement, seen))
            except FreshetError as e:
                _add_note(e, number, len(statements), "nothing was run, because a text is parsed as a whole first")
                raise
        return bound

    def _execute(self, statement: Any) -> Any:
        self._access.check_writable()
        match statement:
            case Bracket():
                return self._transactions.bracket(statement)
            case CreateIndex() | DropIndex():
                return self._ddl.index(statement)
            case CreateTable():
                return self._ddl.create_table(statement)
            case AlterTable():
                return self._ddl.alter_table(statement)
            case DropTable() | DropView():
                return self._ddl.drop(statement)
            case CreateView():
                return self._ddl.create_named(statement)
            case Insert():
                return self._insert(statement)
            case Delete(query=query) | Update(query=query) if query is not None:
                schema = self._state.catalog.tables[statement.table.lower()]
                rows = dml.replaced(statement, schema, self._one_off.answer(query))
                return self._transactions.apply({statement.table: rows})
            case Delete() | Update():
                in_time = self._transactions.in_time
                return self._transactions.transact(lambda: in_time(self._in_place(statement)))
        raise AssertionError(f"no way to execute {statement}")

    def _insert(self, statement: Insert) -> Transaction:
        schema = self._state.catalog.tables[statement.table.lower()]
        if statement.query is None:
            return self._transactions.apply({statement.table: dml.inserted(statement, schema)})
        names = [schema.fields[i].name for i in statement.columns]
        return self._transactions.apply({statement.table: self._one_off.answer(statement.query).rename_columns(names)})

    def _in_place(self, statement: Delete | Update) -> dict[str, RowChange]:
        """The changes of a statement to the rows of its table."""
        name = statement.table.lower()
        table = self._state.core.tables[name]
        if isinstance(statement, Delete):
            return {name: dml.deleted(statement, table)}
        return {name: dml.updated(statement, self._state.catalog.tables[name], table)}


def _kept(before: int) -> str:
    if before == 0:
        return "nothing was kept"
    return "statement 1 was kept" if before == 1 else f"statements 1 to {before} were kept"


def _add_note(error: FreshetError, number: int, of: int, kept: str) -> None:
    """Adds to an error which of several statements failed, and what happened to the others."""
    if of > 1:
        note = f"statement {number + 1} of {of} failed; {kept}"
        error.args = (f"{error.args[0]}\n  {note}" if error.args else note, *error.args[1:])
