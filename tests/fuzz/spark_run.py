"""Random queries over small tables, compared with Spark's results: accepted or refused, the names, order and types of
the columns, and the values, as a bag or in the requested order.

    python -m tests.fuzz.spark_run --seed 7 --queries 20000

Intended differences are in `spark_differences.py`, each with its reason, and in docs/sql.md.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import math
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

import freshet
from freshet.errors import FreshetError
from freshet.logical.query import is_query
from freshet.plans import build_plan
from freshet.sql.parse import parse
from tests.fuzz.choices import Choices, shrunk
from tests.fuzz.question import NoOracleError, NoValueError, OraclesDifferError, Question
from tests.fuzz.spark_differences import allowed, named_apart, type_name
from tests.fuzz.spark_grammar import SETS, SparkGrammar, spark_tables
from tests.fuzz.tables import TYPES, TableModel
from tests.recase import CASES, recased

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CRASH = "crashed:"
PLANNING = 2.0  # seconds of processor time that a query may take to be planned
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass(frozen=True)
class Answer:
    """The result of one of the two: columns and rows, or an error."""

    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    kind: str  # "agreed", "both refuse", "allowed", "failed"
    why: str
    sql: str
    made: list[int]
    tables: str


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    logging.getLogger("SQLQueryContextLogger").disabled = True
    builder = SparkSession.builder.master("local[1]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


#: Subqueries that read the query around them below LIMIT and UNION ALL, or in HAVING below DISTINCT.
_WRONG_IN_SPARK = re.compile(r"UNION ALL .*\bLIMIT\b|\(SELECT DISTINCT .*\bHAVING\b.*\bo\.", re.I)

#: The same below two aggregates, of which the inner one has no GROUP BY: Spark and DuckDB have no row of it if no row
#: matches, so only SQLite can judge.
_TOTAL_OF_TOTAL = re.compile(r"\(SELECT \w+\([^()]*\) FROM \(SELECT \w+\((?:(?!GROUP BY).)*\) AS \w+", re.I)


def run_query(choices: Choices, spark: SparkSession) -> Outcome:
    number = choices.below(SETS)
    tables = spark_tables(number)
    grammar = SparkGrammar(choices, tables)
    sql = grammar.statement()
    if choices.chance(30):
        sql = recased(sql, choices.pick(CASES), choices.below(1000))
    ours, planning = _freshet(sql, number)
    theirs = _spark(sql, number, spark)
    kind, why = compare(sql, ours, theirs, grammar.order)
    if kind == "failed" and _reads_around(sql) and ("a scalar subquery has" in why or _others_agree(sql, ours, number)):
        kind, why = "allowed", "outer joins of a subquery whose ON reads the query around it"
    if kind == "failed" and why.startswith("rows") and _WRONG_IN_SPARK.search(sql) and _others_agree(sql, ours, number):
        kind, why = "allowed", "LIMIT over a correlated UNION ALL, HAVING under DISTINCT: DuckDB agrees"
    if kind == "failed" and why.startswith("rows") and _TOTAL_OF_TOTAL.search(sql):
        unjudged = Question.of(sql, list(tables)).sqlite is None
        if unjudged or _others_agree(sql, ours, number):
            kind, why = "allowed", "a correlated total of a total without rows: SQLite agrees, or cannot say"
    if planning > PLANNING:
        kind, why = "failed", f"planning took {planning:.1f} s of processor time"
    return Outcome(kind, why, sql, choices.made, "\n".join(f"  {t.ddl}: {_values(t)}" for t in tables))


def _reads_around(sql: str) -> bool:
    """Whether the condition of an outer join reads the query around its own: Spark answers some of these wrongly."""
    for join in sqlglot.parse_one(sql, dialect="spark").find_all(exp.Join):
        select, on = join.find_ancestor(exp.Select), join.args.get("on")
        if join.side and select is not None and on is not None:
            here = {j.this.alias_or_name.lower() for j in (select.args["from_"], *select.args.get("joins", ()))}
            if any(c.table.lower() not in here for c in on.find_all(exp.Column) if c.table):
                return True
    return False


def _others_agree(sql: str, ours: Answer, number: int) -> bool:
    """Whether DuckDB or SQLite gives the same answer, if either has one."""
    if ours.error:
        return False
    tables = list(spark_tables(number))
    try:
        Question.of(sql, tables).check(_database(number).execute(sql), tables)
    except (NoOracleError, OraclesDifferError):
        return True
    except (NoValueError, AssertionError):
        return False
    return True


@cache
def _database(number: int) -> freshet.Database:
    db = freshet.connect()
    for table in spark_tables(number):
        db.execute(table.ddl)
    db.apply({t.name: t.arrow() for t in spark_tables(number)})
    return db


def _freshet(sql: str, number: int) -> tuple[Answer, float]:
    db, began = _database(number), time.process_time()
    try:
        (query,) = parse(sql, db.catalog)
        assert is_query(query)
        build_plan(query)
        planning = time.process_time() - began
        table = db.execute(sql)
    except FreshetError as error:
        return Answer(error=getattr(error, "reason", str(error))), time.process_time() - began
    except Exception as error:
        return Answer(error=f"{CRASH} {type(error).__name__}: {error}"), time.process_time() - began
    rows = tuple(zip(*(c.to_pylist() for c in table.columns), strict=True)) if table.num_columns else ()
    return Answer(tuple(table.column_names), tuple(str(f.type) for f in query.fields), rows), planning


@cache
def _frame(number: int, table: int, spark: SparkSession) -> DataFrame:
    return spark.sql(_values(spark_tables(number)[table]))


_shown: dict[int, int] = {}  # the set of tables that a session has by their names


def _spark(sql: str, number: int, spark: SparkSession) -> Answer:
    if _shown.get(id(spark)) != number:
        for i, table in enumerate(spark_tables(number)):
            _frame(number, i, spark).createOrReplaceTempView(table.name)
        _shown[id(spark)] = number
    try:
        frame = spark.sql(sql)
        names = tuple(f.name for f in frame.schema.fields)
        types = tuple(str(f.dataType.simpleString()).upper() for f in frame.schema.fields)
        if any(_is_months(t) for t in types):  # which Python has no values for
            places = [f"o{i}" for i in range(len(names))]
            read = [
                f"CAST(CAST({p} AS INTERVAL MONTH) AS INT)" if _is_months(t) else p
                for p, t in zip(places, types, strict=True)
            ]
            frame = frame.toDF(*places).selectExpr(*read)
        rows = tuple(tuple(r) for r in frame.collect())
    except Exception as error:  # of the analyzer, or of a task
        return Answer(error=re.sub(r"\s+", " ", str(error))[:1500])
    return Answer(names, types, rows)


def _is_months(kind: str) -> bool:
    return kind.startswith("INTERVAL") and ("MONTH" in kind or "YEAR" in kind)


def _values(table: TableModel) -> str:
    """The table's rows as a query, which Spark keeps in its plan."""
    shown = ", ".join(f"CAST({n} AS {TYPES[k][0]}) AS {n}" for n, k in table.columns)
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in table.rows)
    return f"SELECT {shown} FROM VALUES {rows} AS v({', '.join(n for n, _ in table.columns)})"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"'{value}'" if isinstance(value, (str, datetime.date, Decimal)) else repr(value)


def compare(sql: str, ours: Answer, theirs: Answer, order: list[tuple[int, bool, bool]]) -> tuple[str, str]:
    if ours.error.startswith(CRASH):
        return "failed", ours.error
    if ours.error and theirs.error:
        return "both refuse", ours.error
    difference = _difference(ours, theirs, order)
    if not difference:
        return "agreed", ""
    reason = allowed(sql, ours, theirs, difference)
    return ("allowed", reason) if reason else ("failed", difference)


def _difference(ours: Answer, theirs: Answer, order: list[tuple[int, bool, bool]]) -> str:
    if theirs.error:
        return f"answered here, refused by Spark: {theirs.error}"
    if ours.error:
        return f"refused here, answered by Spark: {ours.error}"
    names = named_apart(theirs.names)
    if len(ours.names) != len(names) or any(a.lower() != b.lower() for a, b in zip(ours.names, names, strict=True)):
        return f"columns {', '.join(ours.names)}; Spark has {', '.join(names)}"
    kinds = tuple(type_name(t) for t in theirs.types)
    if tuple(map(type_name, ours.types)) != kinds:
        return f"types {', '.join(ours.types)}; Spark has {', '.join(kinds)}"
    left, right = sorted(map(_key, ours.rows)), sorted(map(_key, theirs.rows))
    if left != right:
        return f"rows {_some(ours.rows)}; Spark has {_some(theirs.rows)}"
    keys = [i for i, _, _ in order]
    if [_key(r[i] for i in keys) for r in ours.rows] != [_key(r[i] for i in keys) for r in theirs.rows]:
        return f"order {_some(ours.rows)}; Spark has {_some(theirs.rows)}"
    return ""


def _key(row: Any) -> tuple[Any, ...]:
    """A row whose values are comparable with those of other rows."""
    return tuple(_comparable(v) for v in row)


def _comparable(value: Any) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    if isinstance(value, float):
        if math.isnan(value):
            return 2, 0
        return 1, float(f"{value:.9e}") + 0.0
    if isinstance(value, datetime.datetime):
        return 1, value.replace(tzinfo=None).isoformat()
    if isinstance(value, (list, tuple)):
        return 1, _key(value)
    if isinstance(value, (bool, int, Decimal)):
        return 1, value
    if isinstance(value, (bytes, bytearray)):
        return 1, value.hex()
    return 1, str(value)


def _some(rows: tuple[tuple[Any, ...], ...]) -> str:
    return f"{sorted(rows, key=str)[:12]}{'...' if len(rows) > 12 else ''}"


def shortest(outcome: Outcome, spark: SparkSession, tries: int) -> Outcome:
    """The same failure, made by fewer choices."""
    least = outcome

    def fails(made: list[int]) -> bool:
        nonlocal least
        again = run_query(Choices(made=made), spark)
        if again.kind == "failed" and again.why.split(" ")[0] == outcome.why.split(" ")[0]:
            least = again
            return True
        return False

    shrunk(outcome.made, fails, tries)
    return least


def main() -> int:
    options = argparse.ArgumentParser(description="Random queries, compared with Spark.")
    options.add_argument("--queries", type=int, default=2_000)
    options.add_argument("--seed", type=int, default=None, help="of the first query; each next one is one more")
    options.add_argument("--failures", type=int, default=20, help="stop after so many")
    options.add_argument("--shrink", type=int, default=150, help="tries to make a failing query smaller")
    given = options.parse_args()
    first = int(time.time()) * 100_000 % (1 << 31) if given.seed is None else given.seed
    freshet.connect()  # kernels are compiled here
    spark = session()
    print(f"seeds {first} to {first + given.queries - 1}", flush=True)
    kinds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for number in range(given.queries):
        outcome = run_query(Choices(seed=first + number), spark)
        kinds[outcome.kind] += 1
        if outcome.kind == "allowed":
            reasons[outcome.why] += 1
        if outcome.kind == "failed":
            least = shortest(outcome, spark, given.shrink) if given.shrink else outcome
            print(f"FAILED with seed {first + number}: {least.why}\n  {least.sql}\n{least.tables}\n", flush=True)
        if (number + 1) % 100 == 0:
            print(f"{number + 1:>6} queries: {_line(kinds)}", flush=True)
        if kinds["failed"] >= given.failures:
            break
    for reason, times in reasons.most_common():
        print(f"  {times:>6}  {reason}")
    print(_line(kinds))
    return 1 if kinds["failed"] else 0


def _line(kinds: Counter[str]) -> str:
    return ", ".join(f"{kinds[k]} {k}" for k in ("agreed", "both refuse", "allowed", "failed"))


if __name__ == "__main__":
    sys.exit(main())
