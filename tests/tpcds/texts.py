"""TPC-DS: the schema, and the 99 query texts of DuckDB's extension in Spark's syntax."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp

from tests.fuzz.dialect import for_duckdb

NUMBERS = range(1, 100)

#: Primary keys of more than a table's first column.
_KEYS = {
    "catalog_returns": ("cr_item_sk", "cr_order_number"),
    "catalog_sales": ("cs_item_sk", "cs_order_number"),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
    "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "store_sales": ("ss_item_sk", "ss_ticket_number"),
    "web_returns": ("wr_item_sk", "wr_order_number"),
    "web_sales": ("ws_item_sk", "ws_order_number"),
}


def extension() -> Path:
    """DuckDB's TPC-DS extension."""
    import duckdb_extension_tpcds

    return next(Path(duckdb_extension_tpcds.__path__[0]).rglob("tpcds.duckdb_extension"))


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension()}'")
    connection.execute("CALL dsdgen(sf = 0)")  # the tables, without rows
    return connection


@functools.cache
def official(number: int) -> str:
    """The text of a query. Names in double quotes are written in backticks: in Spark, double quotes make a text."""
    row = _connection().execute("SELECT query FROM tpcds_queries() WHERE query_nr = ?", [number]).fetchone()
    assert row is not None, f"TPC-DS has queries 1 to 99, not {number}"
    return str(row[0]).strip().rstrip(";").replace('"', "`")


#: Parameters that little data has an answer for.
EASED: dict[int, tuple[tuple[str, str], ...]] = {
    8: (("HAVING count(*) > 10", "HAVING count(*) > 0"),),
    34: (("BETWEEN 15 AND 20", "BETWEEN 1 AND 20"),),
    39: (("END > 1", "END > 0.1"),),
    44: (("ss_addr_sk IS NULL", "ss_addr_sk < 3"),),
    64: ((">2*sum(", ">0.2*sum("),),
    54: (("d_month_seq+1", "d_month_seq-9"), ("d_month_seq+3", "d_month_seq+9"), ("AND ca_state = s_state", "")),
    75: (("<0.9", "<1.9"),),
    58: (("0.9 *", "0.1 *"), ("1.1 *", "9 *")),
}


def eased(number: int) -> str:
    text = official(number)
    for old, new in EASED.get(number, ()):
        assert old in text, f"q{number} has no {old}"
        text = text.replace(old, new)
    return text


def for_oracle(number: int, text: str) -> str:
    """The same query for DuckDB, where the quotient of decimals is a double, and doubles are rounded by their binary
    value: Spark rounds what is written, and q58 divides by a quotient that is rounded."""
    if number == 58:
        quotient = "(ss_item_rev+cs_item_rev+ws_item_rev)/3"
        text = text.replace(quotient, f"ROUND({quotient}, 6)")
    tree = sqlglot.parse_one(text, dialect="spark")
    for rounded in list(tree.find_all(exp.Round)):
        rounded.set("this", exp.cast(rounded.this.copy(), "DECIMAL(38, 12)"))
    return for_duckdb(tree.sql(dialect="spark"))


@functools.cache
def schema() -> dict[str, dict[str, str]]:
    """The columns of each table with their types."""
    rows = _connection().execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() ORDER BY table_name, column_index"
    )
    tables: dict[str, dict[str, str]] = {}
    for table, column, type_ in rows.fetchall():
        tables.setdefault(table, {})[column] = type_.replace("VARCHAR", "STRING")
    return tables


def key_of(table: str) -> tuple[str, ...]:
    return _KEYS.get(table) or (next(iter(schema()[table])),)


def columns_of(number: int) -> dict[str, dict[str, str]]:
    """The tables that a query reads, with its columns of each, and the keys. No two tables have a column of one name,
    and none has the name of a column."""
    words = set(re.findall(r"\w+", official(number).lower()))
    return {
        table: {name: type_ for name, type_ in columns.items() if name in words or name in key_of(table)}
        for table, columns in schema().items()
        if table in words
    }


def ddl(tables: dict[str, dict[str, str]]) -> list[str]:
    """CREATE TABLE statements for such tables."""
    statements = []
    for table, columns in tables.items():
        listed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
        statements.append(f"CREATE TABLE {table} ({listed}, PRIMARY KEY ({', '.join(key_of(table))}))")
    return statements
