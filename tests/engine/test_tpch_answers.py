"""The official answers of all 22 TPC-H queries, reached by inserts only: chunks of all tables in turn, after the view
was created. Tables are from the generator with which the answers were published; others differ in addresses and
comments.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.csv as csv
import pytest

import freshet
from benchmarks import tpch as schema
from tests.oracle import same_bag


@functools.cache
def published(scale: float) -> duckdb.DuckDBPyConnection:
    """A database with the tables at a scale factor, and the answers."""
    connection = duckdb.connect()
    connection.execute(f"LOAD '{schema.extension()}'")
    connection.execute(f"CALL dbgen(sf = {scale})")
    return connection


def official_answer(number: int, scale: float, shown: pa.Schema) -> pa.Table:
    """The published answer, its columns read as those of the view; decimals as doubles, since some have more digits."""
    sql = "SELECT answer FROM tpch_answers() WHERE query_nr = ? AND scale_factor = ?"
    row = published(scale).execute(sql, [number, scale]).fetchone()
    assert row is not None
    types = {f.name: pa.float64() if pa.types.is_decimal(f.type) else f.type for f in shown}
    names = row[0].splitlines()[0].split("|")
    read = csv.read_csv(
        io.BytesIO(row[0].encode()),
        parse_options=csv.ParseOptions(delimiter="|", quote_char=False, ignore_empty_lines=len(names) > 1),
        convert_options=csv.ConvertOptions(column_types=dict(zip(names, types.values(), strict=True))),
    )
    return read.rename_columns(shown.names)


def chunks(tables: dict[str, pa.Table], count: int) -> Iterator[dict[str, pa.Table]]:
    """A part of every table in each transaction."""
    for i in range(count):
        parts = {n: (t.num_rows * i // count, t.num_rows * (i + 1) // count) for n, t in tables.items()}
        yield {n: tables[n].slice(start, end - start) for n, (start, end) in parts.items() if end > start}


def follow(number: int, scale: float, transactions: int) -> None:
    sql = schema.official(number)
    names, columns = schema.tables_of(sql), schema.columns_of(sql)
    db = freshet.connect()
    tables = {}
    for name, statement in zip(names, schema.ddl(names, columns), strict=True):
        db.execute(statement)
        declared = {line.split()[0] for line in statement.splitlines()}
        declared_types = schema.generate(0.001, (name,))[name].schema
        wanted = [c for c in declared_types.names if c in declared]
        table = published(scale).execute(f"SELECT {', '.join(wanted)} FROM {name}").to_arrow_table()
        tables[name] = table.cast(pa.schema([declared_types.field(c) for c in wanted]))
    view = db.create_view("q", sql)
    for changes in chunks(tables, transactions):
        db.apply(changes)
    answer = view.to_arrow()
    same_bag(answer, official_answer(number, scale, answer.schema))


@pytest.mark.parametrize("number", range(1, 23))
def test_official_answers_at_a_hundredth(number: int) -> None:
    follow(number, 0.01, 7)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(1, 23))
def test_official_answers(number: int) -> None:
    follow(number, 1, 40)
