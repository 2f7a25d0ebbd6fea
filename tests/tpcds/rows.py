"""Small tables in which a TPC-DS query finds something: columns have the values that its text compares them with.

All surrogate keys are of the same few numbers, so that rows join. A column that the text compares with literals has
these, what lies between them, and a few values besides; other columns have values of tiny domains. NULLs are
everywhere but in keys and days.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from tests.tpcds.texts import columns_of, key_of, official
from tests.twin import TwinTable

#: Rows known of a table of facts, of days and of any other, and how many tickets and orders there are.
FACTS, DAYS, DIMENSION, NUMBERS = 400, 16, 6, 100
#: Queries that find more over other numbers of rows.
SIZES = {
    (17, "store_sales"): 800,
    (17, "store_returns"): 800,
    (41, "item"): 150,
    (69, "web_sales"): 20,
    (69, "catalog_sales"): 20,
}
NULLS = 0.04
MOST, FEW = 24, {8: 3}  # values of a column that the text compares it with
OFTEN = 0.95  # how often a column has a value that the text compares it with

#: Queries that take one value of date_dim, with what determines it: days agree on it, and change by day only.
CALENDAR = {6: ("d_month_seq", "d_year", "d_moy"), 54: ("d_month_seq", "d_year", "d_moy"), 58: ("d_week_seq", "d_date")}

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like)
_NOT_NULL = ("date_dim",)  # a day without a date would tie with other rows where sums run over dates
_OTHER: dict[str, Sequence[Any]] = {
    "BIGINT": (1, 2, 3),
    "INTEGER": (1, 2, 3),
    "STRING": ("a", "b", "c"),
    "DATE": tuple(datetime.date(2000, 1, 1) + datetime.timedelta(days) for days in (0, 7, 31, 200)),
    "DECIMAL": tuple(decimal.Decimal(n) for n in ("1.00", "2.50", "3.00", "20.00", "75.10", "100.00", "150.00")),
}


def known_rows(number: int, rng: np.random.Generator) -> list[TwinTable]:
    """The rows that a test of the query may use."""
    compared = _compared(official(number), FEW.get(number, MOST))
    tables = []
    for name, columns in columns_of(number).items():
        key = key_of(name)
        size = SIZES.get((number, name)) or (FACTS if len(key) > 1 else DAYS if name == "date_dim" else DIMENSION)
        data = {
            column: _values(
                column, type_, _fitting(compared[column], type_), size, rng, name not in _NOT_NULL and column not in key
            )
            for column, type_ in columns.items()
        }
        if len(key) == 1 and key[0].endswith("_sk"):
            data[key[0]] = pa.array(np.arange(1, size + 1) % size + 1)
        rows = pa.table(data).cast(pa.schema([(c, _arrow(t)) for c, t in columns.items()]))
        if name == "date_dim" and number in CALENDAR:
            rows = _agreeing(rows, *CALENDAR[number])
        tables.append(TwinTable(name, rows, key))
    return tables


def _agreeing(rows: pa.Table, column: str, *by: str) -> pa.Table:
    """The rows with one value of a column for equal values of others; each day once."""
    values: dict[tuple[Any, ...], Any] = {}
    keys = zip(*(rows.column(c).to_pylist() for c in by), strict=True)
    agreed = [values.setdefault(key, value) for key, value in zip(keys, rows.column(column).to_pylist(), strict=True)]
    place = rows.column_names.index(column)
    rows = rows.set_column(place, column, pa.array(agreed, rows.schema.field(place).type))
    days = np.asarray(rows.column("d_date" if by == ("d_date",) else "d_date_sk"))
    return rows.take(np.sort(np.unique(days, return_index=True)[1]))


def _values(
    column: str, type_: str, literals: Sequence[Any], size: int, rng: np.random.Generator, nulls: bool
) -> pa.Array:
    kind = type_.split("(")[0]
    other = _OTHER[kind]
    if column.endswith("_sk"):
        literals, other = (), range(1, (DAYS if column.endswith("_date_sk") else DIMENSION) + 1)
    elif column.endswith(("ticket_number", "order_number")):
        other = range(1, NUMBERS + 1)
    elif column.endswith("_quantity") and "return" not in column:
        other = (12, 30, 45)  # more than is returned
    values = []
    for _ in range(size):
        chosen = literals if literals and rng.random() < OFTEN else other
        value = chosen[int(rng.integers(0, len(chosen)))]
        values.append(None if nulls and rng.random() < NULLS else value)
    return pa.array(values, _arrow(type_))


def _fitting(values: Sequence[Any], type_: str) -> list[Any]:
    """The values of a type; texts of dates are dates where the column is."""
    if type_ == "DATE":
        values = [datetime.date.fromisoformat(v) if isinstance(v, str) else v for v in values]
        return [v for v in values if isinstance(v, datetime.date)]
    if type_.startswith("DECIMAL"):
        return [round(decimal.Decimal(v), 2) for v in values if isinstance(v, (int, decimal.Decimal))]
    return [v for v in values if isinstance(v, str if type_ == "STRING" else int)]


def _arrow(type_: str) -> pa.DataType:
    if type_.startswith("DECIMAL"):
        precision, scale = map(int, re.findall(r"\d+", type_))
        return pa.decimal128(precision, scale)
    return {"BIGINT": pa.int64(), "INTEGER": pa.int32(), "STRING": pa.string(), "DATE": pa.date32()}[type_]


def _compared(text: str, most: int) -> defaultdict[str, list[Any]]:
    """By column, the first few values of constants that it is compared with, also under an alias and through other
    columns, and these moved by what the text adds to the column."""
    tree = sqlglot.parse_one(text, dialect="spark")
    found: defaultdict[str, list[Any]] = defaultdict(list)
    moved: defaultdict[str, set[int]] = defaultdict(set)
    names = {a.alias.lower(): a.this.name.lower() for a in tree.find_all(exp.Alias) if isinstance(a.this, exp.Column)}
    pairs: set[tuple[str, ...]] = set()
    for node in tree.find_all(*_COMPARISONS):
        sides = [
            node.this,
            *(node.args.get(a) for a in ("expression", "low", "high")),
            *node.args.get("expressions", ()),
        ]
        sides = [s for s in sides if isinstance(s, exp.Expression)]
        columns = {c.name.lower() for s in sides for c in s.find_all(exp.Column)}
        columns = {names.get(c, c) for c in columns}
        if len(columns) == 2 and isinstance(node, exp.EQ):
            pairs.add(tuple(sorted(columns)))
        values = [v for s in sides if s.find(exp.Column, exp.Query) is None for v in _constant(s)]
        for column in columns:
            found[column] += [*values, *_beyond(node, values)]
    for node in tree.find_all(exp.Add, exp.Sub):
        if isinstance(node.this, exp.Column) and isinstance(node.expression, exp.Literal) and node.expression.is_int:
            sign = 1 if isinstance(node, exp.Add) else -1
            moved[re.sub(r"\d$", "", node.this.name.lower())].add(sign * int(node.expression.name))
    for a, b in sorted(pairs):
        found[a], found[b] = [*found[a], *found[b][:most]], [*found[b], *found[a][:most]]
    for column, steps in moved.items():
        whole = [v for v in found[column] or (1, 2) if isinstance(v, int)]
        found[column] = whole + [v + s for v in whole for s in steps] + [v for v in found[column] if v not in whole]
    return defaultdict(list, {column: list(dict.fromkeys(values))[:most] for column, values in found.items()})


def _constant(node: exp.Expression) -> list[Any]:
    value = duckdb.execute(f"SELECT {node.sql(dialect='duckdb')}").fetchone()
    assert value is not None
    if isinstance(node.parent, exp.Like):
        return [str(value[0]).replace("%", "")]
    return [v.date() if isinstance(v, datetime.datetime) else v for v in value]


def _beyond(node: exp.Expr, values: list[Any]) -> list[Any]:
    """What is on the right side of limits: between two of them, or a little above or below one."""
    if isinstance(node, exp.Between) and len(values) == 2 and not isinstance(values[0], str):
        low, high = values
        return [(low + high) / 2 if isinstance(low, decimal.Decimal) else low + (high - low) // 2]
    step = 1 if isinstance(node, (exp.GT, exp.GTE)) else -1 if isinstance(node, (exp.LT, exp.LTE)) else 0
    return [v + step for v in values if isinstance(v, (int, decimal.Decimal)) and step]
