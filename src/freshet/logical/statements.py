"""Statements as data: definitions, changes of tables, brackets of a transaction, and queries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from freshet.logical.query import AnyQuery, TableSchema
from freshet.scalar.expression import Expression


@dataclass(frozen=True, slots=True)
class CreateTable:
    schema: TableSchema
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterTable:
    """The table as it becomes; `columns`: where each of its columns was, -1 where it is new."""

    schema: TableSchema
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DropTable:
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateView:
    name: str
    sql: str  # the text of the query alone
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True, slots=True)
class DropView:
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """CREATE INDEX [name] ON view (columns): rows of the view's answer are found by these columns."""

    view: str
    columns: tuple[int, ...]
    name: str
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    name: str
    if_exists: bool = False


class Bracket(Enum):
    """Opens or ends a transaction of several statements."""

    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO table [(columns)] VALUES ... | SELECT ...; positions of the target columns, rows as expressions
    without references already cast to the column types, or a query whose outputs are."""

    table: str
    columns: tuple[int, ...]
    rows: tuple[tuple[Expression, ...], ...] | None
    query: AnyQuery | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM table WHERE condition (None: all rows); the condition reads relation 0, the table. If the condition
    has subqueries, `query` returns the rows."""

    table: str
    where: Expression | None
    query: AnyQuery | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE table SET column = expression, ... WHERE condition. If it has subqueries, `query` returns the rows, each
    followed by the new values."""

    table: str
    columns: tuple[int, ...]
    values: tuple[Expression, ...]
    where: Expression | None
    query: AnyQuery | None = None


Definition = CreateTable | AlterTable | DropTable | CreateView | DropView | CreateIndex | DropIndex
Statement = Definition | Insert | Delete | Update | Bracket | AnyQuery
