"""All SQL texts of the suite's fixtures, for tests that look at texts as such."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path

import freshet
from freshet.sql.catalog import Catalog
from freshet.sql.source import SqlText
from tests.scalar import spark_cases as function_cases
from tests.scalar import test_functions_spark
from tests.spark import cases as spark_cases
from tests.sql import test_binding, test_names, test_refusals, test_stars
from tests.sql.conftest import DDL
from tests.sql.test_tpch_binds import DDL as TPCH
from tests.sqllogictest.records import Query, Statement, records

ROOT = Path(__file__).parents[2]


def texts() -> Iterator[tuple[str, str]]:
    """SQL texts, each with the statements that make its tables."""
    for sql, _ in test_binding.PAIRS.values():
        yield DDL, sql
    for sql in (*test_refusals.ERRORS, *test_refusals.REFUSED):
        yield DDL, sql
    for sql, _ in test_names.CASES:
        yield test_names.TABLES, sql
    for sql, _, _ in test_stars.CASES:
        yield test_stars.TABLES, sql
    for sql in spark_cases.VIEWS.values():
        yield spark_cases.DDL, sql
    for sql in functions():
        yield "", sql
    for query in sorted(resources.files("freshet.demo").joinpath("queries").iterdir(), key=str):
        yield TPCH, query.read_text()
    for path in sorted((ROOT / "tests" / "sqllogictest").glob("*.test")):
        known = ""
        for record in records(path.read_text()):
            if isinstance(record, Statement) and not record.fails:
                known += record.sql + ";\n"
            if isinstance(record, Query):
                yield known, record.sql


def functions() -> Iterator[str]:
    """A call of each function."""
    for name, case in {c["name"]: c for c in test_functions_spark.CASES if "error" not in c}.items():
        expression, fields = function_cases.sql(name, case["args"], case.get("to"))
        yield f"SELECT {expression} AS x FROM (SELECT {fields}) AS t" if fields else f"SELECT {expression} AS x"


@cache
def database(ddl: str) -> freshet.Database:
    """The tables, with their rows."""
    db = freshet.connect()
    for statement in SqlText(ddl).statements():
        with contextlib.suppress(freshet.FreshetError):  # a file of other engines has more than is read here
            db.execute(statement.between(0, len(statement.tokens) - 1))
    return db


def tables(ddl: str) -> Catalog:
    return database(ddl).catalog
