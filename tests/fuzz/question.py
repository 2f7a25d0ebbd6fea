"""The expected answer of a query: DuckDB's, or SQLite's if DuckDB has none. If the view differs from DuckDB's answer,
SQLite decides: if the view agrees with it, the error is DuckDB's, which is counted and is not a failure.
"""

from __future__ import annotations

import datetime
import re
import sqlite3
import threading
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from tests.fuzz.dialect import for_duckdb, for_sqlite
from tests.fuzz.tables import TableModel
from tests.oracle import oracle_connection, same_bag, sqlite_answer

ORACLE = 30.0  # seconds that DuckDB may take: it plans some queries over a few rows as products of them all


class NoOracleError(Exception):
    """Neither DuckDB nor SQLite can answer."""


class NoValueError(Exception):
    """Some row has no value: a transaction that leads there is refused."""


class OraclesDifferError(Exception):
    """SQLite has the view's answer, and DuckDB another one."""


class Clock:
    """The time it is, in place of words that ask for it. No literal of the grammar has the day that marks them."""

    WORDS = ("CURRENT_TIMESTAMP()", "NOW()", "CURRENT_DATE")
    _DAY = "1111-11-11"

    def __init__(self) -> None:
        self.time = datetime.datetime(1970, 1, 1)

    def marked(self, sql: str) -> str:
        for word in self.WORDS:
            mark = f"DATE '{self._DAY}'" if word == "CURRENT_DATE" else f"TIMESTAMP '{self._DAY} 11:11:11'"
            sql = sql.replace(word, mark)
        return sql

    def at(self, sql: str) -> str:
        return sql.replace(f"{self._DAY} 11:11:11", str(self.time)).replace(self._DAY, str(self.time.date()))


@dataclass(frozen=True)
class Question:
    """A query in the words of each oracle."""

    duckdb: str
    sqlite: str | None
    clock: Clock = field(default_factory=Clock)

    @classmethod
    def of(cls, sql: str, tables: list[TableModel]) -> Question:
        bytes_columns = {name for table in tables for name, kind in table.columns if kind == "x"}
        has_bytes = any(re.search(rf"\b{name}\b|\*", sql) for name in bytes_columns)  # which SQLite joins to a text
        timed = any(word in sql for word in Clock.WORDS)
        clock = Clock()
        sql = clock.marked(sql)
        return cls(for_duckdb(sql), None if has_bytes or timed else for_sqlite(sql), clock)

    def answer(self, tables: list[TableModel], like: pa.Schema) -> pa.Table:
        """The first answer there is, in types that hold it."""
        rows = {t.name: t.arrow() for t in tables}
        try:
            table = expected(self.clock.at(self.duckdb), rows)
        except NoOracleError:
            second = self._second_opinion(rows, like)
            if second is None:
                raise
            return second
        for column, shown in zip(table.columns, like, strict=True):
            if pa.types.is_int64(shown.type) and pa.types.is_decimal(column.type):
                _check_fits(column)
        return table

    def check(self, seen: pa.Table, tables: list[TableModel]) -> None:
        """Raises AssertionError if `seen` is wrong."""
        try:
            same_bag(seen, self.answer(tables, seen.schema))
        except AssertionError as wrong:
            second = self._second_opinion({t.name: t.arrow() for t in tables}, seen.schema)
            if second is None:
                raise
            try:
                same_bag(seen, second)
            except AssertionError:
                raise wrong from None
            raise OraclesDifferError(f"SQLite agrees with the view, DuckDB does not: {wrong}") from wrong

    def _second_opinion(self, rows: dict[str, pa.Table], like: pa.Schema) -> pa.Table | None:
        if self.sqlite is None:
            return None
        try:
            return sqlite_answer(self.sqlite, rows, like)
        except sqlite3.Error:
            return None


def expected(sql: str, tables: dict[str, pa.Table]) -> pa.Table:
    connection = oracle_connection()
    for name, table in tables.items():
        connection.register(name, table)
    limit = threading.Timer(ORACLE, connection.interrupt)
    limit.start()
    try:
        return connection.execute(sql).to_arrow_table()
    except duckdb.Error as e:
        oracle_connection.cache_clear()
        own = "Unimplemented type for cast" in str(e)  # DuckDB's own fault, as for MODE of a constant date
        if isinstance(e, (duckdb.OutOfRangeException, duckdb.ConversionException)) and not own:
            raise NoValueError(str(e)) from e
        raise NoOracleError(f"{type(e).__name__}: {e}") from e
    finally:
        limit.cancel()


def _check_fits(column: pa.ChunkedArray) -> None:
    if any(v is not None and not -(1 << 63) <= v < 1 << 63 for v in column.to_pylist()):
        raise NoValueError("a sum beyond BIGINT")
