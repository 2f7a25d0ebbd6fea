"""The oracle: DuckDB's answer over the same tables, and how an answer and a stream of deltas are compared with it.
If DuckDB refuses a query, such as outer joins whose ON reads the enclosing query, SQLite answers it.

Two answers are the same when they are equal as bags of rows, compared by value: 1, 1.00 and DECIMAL 1.0 are one value,
a DATE equals the TIMESTAMP of its midnight, NULL equals NULL and NaN equals NaN. Only doubles get a tolerance; if one
side is DECIMAL and the other DOUBLE (an AVG, a division), it is half a unit of the decimal's last place.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import itertools
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from hypothesis import event, reject

RELATIVE = 1e-9
ABSOLUTE = 1e-9
SHOWN = 10
_MOST_STEPS = 500  # millions of instructions of SQLite for one answer: some seconds

Row = tuple[Any, ...]
NAN = "NaN"


@functools.cache
def oracle_connection() -> duckdb.DuckDBPyConnection:
    """The connection that answers, until its cache is cleared after a failure."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")  # the inputs are tiny, and the other core has a test to run
    # The first pushes predicates that Arrow scans refuse; the second treats rows as matches if a correlated <> is NULL.
    connection.execute("SET disabled_optimizers = 'join_filter_pushdown,deliminator'")
    return connection


def duckdb_answer(sql: str, tables: dict[str, pa.Table]) -> pa.Table:
    """DuckDB's answer to the query over the tables."""
    connection = oracle_connection()
    for name, table in tables.items():
        connection.register(name, table)
    try:
        return connection.execute(sql).to_arrow_table()
    except (duckdb.FatalException, duckdb.InternalException) as e:
        # Its own fault, after which the connection is unusable: this example has no oracle.
        oracle_connection.cache_clear()
        tables = {}
        event(f"DuckDB failed: {type(e).__name__}")
        reject()
    finally:
        for name in tables:
            connection.unregister(name)


def sqlite_answer(sql: str, tables: dict[str, pa.Table], like: pa.Schema) -> pa.Table:
    """SQLite's answer to a query in its own dialect; `like`: the answer's types, since SQLite has neither BOOLEAN nor
    DATE. Dates are texts there, decimals doubles."""
    connection = sqlite3.connect(":memory:")
    steps = itertools.count()
    connection.set_progress_handler(lambda: next(steps) > _MOST_STEPS, 1_000_000)  # sqlite3.OperationalError beyond
    connection.execute("PRAGMA case_sensitive_like = ON")
    for name, table in tables.items():
        columns = ", ".join(f"{f.name} {_sqlite_type(f.type)}" for f in table.schema)
        connection.execute(f"CREATE TABLE {name} ({columns})")
        places = ", ".join("?" * table.num_columns)
        values = [column.to_pylist() for column in table.columns]
        rows = [tuple(map(_for_sqlite, row)) for row in zip(*values, strict=True)]
        connection.executemany(f"INSERT INTO {name} VALUES ({places})", rows)
    answer = connection.execute(sql).fetchall()
    by_column = list(zip(*answer, strict=True)) or [()] * len(like)
    arrays = [pa.array([_from_sqlite(v, f.type) for v in column]) for column, f in zip(by_column, like, strict=True)]
    return pa.table(arrays, names=like.names)


def _sqlite_type(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_):
        return "INTEGER"
    return "REAL" if pa.types.is_floating(type_) or pa.types.is_decimal(type_) else "TEXT"


def _for_sqlite(value: Any) -> Any:
    if isinstance(value, datetime.date):
        return value.isoformat()
    return float(value) if isinstance(value, decimal.Decimal) else value


def _from_sqlite(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_boolean(type_):
        return bool(value)
    return datetime.date.fromisoformat(value) if pa.types.is_date(type_) else value


def reference_answer(sql: str, tables: dict[str, pa.Table], like: pa.Schema) -> pa.Table:
    """The answer of the first engine that has one."""
    try:
        return duckdb_answer(sql, tables)
    except (duckdb.NotImplementedException, duckdb.BinderException, duckdb.ParserException):
        return sqlite_answer(sqlglot.transpile(sql, read="spark", write="sqlite")[0], tables, like)


def same_bag(actual: pa.Table, expected: pa.Table) -> None:
    """Asserts that both tables hold the same rows, each as often; column names and row order do not count."""
    assert actual.num_columns == expected.num_columns, (
        f"columns {actual.column_names}, expected {expected.column_names}"
    )
    slack = [_slack(a.type, e.type) for a, e in zip(actual.schema, expected.schema, strict=True)]
    exact = [i for i, s in enumerate(slack) if s is None]
    rough = [(i, s) for i, s in enumerate(slack) if s is not None]
    left, right = _by_exact_part(actual, exact), _by_exact_part(expected, exact)
    extra: list[Row] = []
    missing: list[Row] = []
    for key in left.keys() | right.keys():
        too_many, too_few = _match(left.get(key, []), right.get(key, []), rough)
        extra += too_many
        missing += too_few
    if extra or missing:
        raise AssertionError(
            f"{actual.num_rows} rows, expected {expected.num_rows}; columns {expected.column_names}\n"
            f"{_listing('not expected', extra)}{_listing('missing', missing)}"
        )


def in_order(answer: pa.Table, order: Sequence[tuple[int, bool, bool]]) -> None:
    """Asserts that rows are in an order: each key is a column, whether it is descending, and whether NULLs come
    first."""

    def compared(row: Row, other: Row) -> int:
        for column, downwards, nulls_first in order:
            a, b = row[column], other[column]
            if a is None or b is None:
                if (a is None) != (b is None):
                    return -1 if (a is None) == nulls_first else 1
            elif a != b:
                less = b == NAN or (a != NAN and a < b)
                return -1 if less != downwards else 1
        return 0

    rows = [tuple(v.encode() if isinstance(v, str) and v != NAN else v for v in row) for row in _rows(answer)]
    for row, following in itertools.pairwise(rows):
        assert compared(row, following) <= 0, f"{_readable(row)} comes before {_readable(following)}, order {order}"


class RunningSum:
    """The sum of a view's deltas. Starting from the answer at registration, it must always equal the answer."""

    def __init__(self, answer: pa.Table | None = None) -> None:
        self.weights: Counter[Row] = Counter() if answer is None else Counter(_rows(answer))

    def add(self, delta: pa.Table) -> None:
        """Adds a delta: the view's columns, then `_weight`; consolidated, so each row has one entry and none has weight
        0."""
        assert delta.column_names[-1] == "_weight", f"the last column is {delta.column_names[-1]!r}, expected '_weight'"
        weights = delta.column("_weight").to_pylist()
        rows = _rows(delta.drop_columns(["_weight"]))
        assert len(set(rows)) == len(rows), _listing("rows twice in one delta", (Counter(rows) - Counter(set(rows))))
        for row, weight in zip(rows, weights, strict=True):
            assert weight != 0, f"weight 0 in a delta: {row}"
            self.weights[row] += weight
            if self.weights[row] == 0:
                del self.weights[row]

    def equals(self, answer: pa.Table) -> None:
        """Asserts that the deltas add up to the answer, to the bit: no double is announced and another answered."""
        rows = Counter(_rows(answer))
        if rows == self.weights:
            return
        keys = rows.keys() | self.weights.keys()
        wrong = [(*key, self.weights[key], rows[key]) for key in keys if self.weights[key] != rows[key]]
        raise AssertionError(_listing("(row, sum of its deltas, times in the answer)", wrong))


def _slack(a: pa.DataType, b: pa.DataType) -> tuple[float, float] | None:
    """Relative and absolute tolerance for a column, None if values must be equal."""
    assert pa.types.is_boolean(a) == pa.types.is_boolean(b) or pa.types.is_null(a) or pa.types.is_null(b), f"{a}, {b}"
    if not (pa.types.is_floating(a) or pa.types.is_floating(b)):
        return None
    decimals = [t.scale for t in (a, b) if pa.types.is_decimal(t)]
    relative = 1e-6 if pa.float32() in (a, b) else RELATIVE
    return relative, max([ABSOLUTE, *(0.5000001 * 10.0**-scale for scale in decimals)])


def _rows(table: pa.Table) -> list[Row]:
    if table.num_columns == 0:
        return [()] * table.num_rows
    return list(zip(*([_value(v) for v in column.to_pylist()] for column in table.columns), strict=True))


def _value(value: Any) -> Any:
    """Python's own equality compares numbers by value; what is left is NaN and days against timestamps."""
    if isinstance(value, dict):
        return tuple((name, _value(v)) for name, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_value, value))
    if isinstance(value, float) and math.isnan(value):
        return NAN
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    return value


def _by_exact_part(table: pa.Table, exact: list[int]) -> dict[Row, list[Row]]:
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in _rows(table):
        groups[tuple(row[i] for i in exact)].append(row)
    return groups


def _match(
    left: list[Row], right: list[Row], rough: list[tuple[int, tuple[float, float]]]
) -> tuple[list[Row], list[Row]]:
    """Rows of either side that find no partner. All agree on the exact columns, so the lists are short."""
    if not rough:
        return left[len(right) :], right[len(left) :]
    unmatched = sorted(right, key=lambda row: _order(row, rough))
    extra = []
    for row in sorted(left, key=lambda row: _order(row, rough)):
        partner = next((i for i, other in enumerate(unmatched) if _close(row, other, rough)), None)
        if partner is None:
            extra.append(row)
        else:
            unmatched.pop(partner)
    return extra, unmatched


def _order(row: Row, rough: list[tuple[int, tuple[float, float]]]) -> list[tuple[int, float]]:
    return [(0, 0.0) if row[i] is None else (2, 0.0) if row[i] == NAN else (1, float(row[i])) for i, _ in rough]


def _close(row: Row, other: Row, rough: list[tuple[int, tuple[float, float]]]) -> bool:
    for i, (relative, absolute) in rough:
        a, b = row[i], other[i]
        if a is None or b is None or NAN in (a, b):
            if a != b:
                return False
        elif not math.isclose(a, b, rel_tol=relative, abs_tol=absolute):
            return False
    return True


def _listing(title: str, rows: Iterable[Row]) -> str:
    rows = sorted(rows, key=repr)
    if not rows:
        return ""
    more = f"\n  and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"{title}:" + "".join(f"\n  {_readable(row)}" for row in rows[:SHOWN]) + more + "\n"


def _readable(row: Row) -> str:
    return "(" + ", ".join("NULL" if value is None else str(value) for value in row) + ")"
