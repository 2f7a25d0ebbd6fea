"""Copies of an answer in a database: one transaction a batch, in SQLite and in PostgreSQL."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from freshet.errors import ChangeError, FreshetError, PlanError, StateError
from freshet.spark import materialize
from freshet.spark.materialize import Materializer
from freshet.spark.sink.jdbc import JdbcCopy
from tests.spark.databases import has_driver, postgres, postgres_programs

pytestmark = pytest.mark.long

SCHEMA = "k BIGINT, s STRING, d DECIMAL(10,2), _weight BIGINT"
Row = tuple[Any, ...]


@dataclass
class Database:
    url: str
    driver: str
    place: str  # a file, or a port

    def rows(self, sql: str) -> list[Row]:
        """Through the database's own client; numbers and text unchanged."""
        if self.url.startswith("jdbc:sqlite"):
            with sqlite3.connect(self.place) as link:
                return [tuple(row) for row in link.execute(sql)]
        null, tab = "∅", "\x1f"
        login = [
            "psql",
            "-h",
            "127.0.0.1",
            "-p",
            self.place,
            "-U",
            "freshet",
            "-d",
            "postgres",
            "-v",
            "ON_ERROR_STOP=1",
        ]
        command = [*login, "-A", "-t", "-q", "-F", tab, "-P", f"null={null}", "-c", sql]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return [tuple(None if v == null else v for v in line.split(tab)) for line in done.stdout.splitlines()]

    def options(self, **more: str) -> dict[str, str]:
        login = {} if self.url.startswith("jdbc:sqlite") else {"user": "freshet", "password": "any"}
        return {"table": "copy", "driver": self.driver, **login, **more}

    def copy(self, spark: SparkSession, schema: str = SCHEMA, **more: str) -> Materializer:
        made = JdbcCopy(spark, self.url, self.options(**more))
        made.prepare(spark.createDataFrame([], schema).drop("_weight").schema)
        return Materializer({None: made})


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    programs = postgres_programs()
    if programs is None or not shutil.which("psql"):
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with postgres(programs) as port:
        yield port


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Database:
    if not has_driver(request.param):
        pytest.skip(f"the JDBC driver of {request.param} could not be fetched")
    if request.param == "sqlite":
        file = str(tmp_path / "copy.db")
        return Database(f"jdbc:sqlite:{file}", "org.sqlite.JDBC", file)
    port = request.getfixturevalue("server")
    opened = Database(f"jdbc:postgresql://127.0.0.1:{port}/postgres", "org.postgresql.Driver", port)
    opened.rows("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return opened


def held_rows(database: Database) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for k, s, d, weight in database.rows('SELECT k, s, d, "_weight" FROM copy'):
        row = (None if k is None else int(k), s, None if d is None else Decimal(str(d)))
        assert row not in rows and int(weight) > 0
        rows[row] = int(weight)
    return rows


def keyed_rows(database: Database) -> dict[Row, Row]:
    return {
        (int(a), b): (None if c is None else Decimal(str(c)),) for a, b, c in database.rows("SELECT k, s, d FROM copy")
    }


def stages(database: Database) -> int:
    if database.url.startswith("jdbc:sqlite"):
        return len(database.rows("SELECT 1 FROM sqlite_master WHERE name LIKE 'freshet_stage%'"))
    return len(database.rows("SELECT 1 FROM pg_tables WHERE tablename LIKE 'freshet_stage%'"))


def batch_of(spark: SparkSession, rows: list[Row], schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def test_bag_is_the_sum_of_the_changes_after_every_batch(spark: SparkSession, database: Database) -> None:
    rng = random.Random(3)
    held: Counter[Row] = Counter()
    copy = database.copy(spark)
    for number in range(6):
        rows: list[Row] = []
        for _ in range(6):
            if held and rng.random() < 0.5:
                row = rng.choice(list(held))
                weight = -rng.randint(1, held[row])
            else:
                row = (rng.choice([None, 1, 2]), rng.choice([None, "a", "é'\"\\"]), rng.choice([None, Decimal("1.50")]))
                weight = rng.choice([1, 3])
            held[row] += weight
            held = +held
            rows.append((*row, weight))
        copy.apply(batch_of(spark, rows), number, "q")
        assert held_rows(database) == held
        if number % 2:
            copy.apply(batch_of(spark, rows[::-1]), number, "q")
            assert held_rows(database) == held
    assert stages(database) == 0
    assert [int(n) for (n,) in database.rows("SELECT MAX(batch_id) FROM freshet_batches")] == [5]


def test_keyed_table_has_the_views_rows(spark: SparkSession, database: Database) -> None:
    rng = random.Random(5)
    held: dict[Row, Row] = {}
    schema = "main" if "sqlite" in database.url else "public"
    copy = database.copy(spark, key="k, s", table=f"{schema}.copy")
    for number in range(6):
        rows: list[Row] = []
        for key in rng.sample([(k, s) for k in (1, 2, 3) for s in ("a", "é")], 4):
            old = held.pop(key, None)
            if old is not None:
                rows.append((*key, *old, -1))
            if old is None or rng.random() < 0.6:
                held[key] = (rng.choice([None, Decimal("0.25"), Decimal(number)]),)
                rows.append((*key, *held[key], 1))
        copy.apply(batch_of(spark, rows), number, "q")
        assert keyed_rows(database) == held
        copy.apply(batch_of(spark, rows[::-1]), number, "q")
        assert keyed_rows(database) == held
    assert stages(database) == 0


def test_impossible_changes_are_rolled_back_whole(spark: SparkSession, database: Database) -> None:
    copy = database.copy(spark)
    copy.apply(batch_of(spark, [(1, "a", None, 2), (None, "a", None, 1)]), 0, "q")
    before = held_rows(database)
    with pytest.raises(
        ChangeError, match=r"batch 1 takes away 3 of the row \(k=1, s=a, d=NULL\), of which table copy holds 2"
    ):
        copy.apply(batch_of(spark, [(7, "new", None, 1), (1, "a", None, -3)]), 1, "q")
    with pytest.raises(ChangeError, match=r"takes away the row \(k=NULL, s=b, d=NULL\), of which table copy holds 0"):
        copy.apply(batch_of(spark, [(None, "b", None, -1), (None, "a", None, -1)]), 1, "q")
    assert held_rows(database) == before and stages(database) == 0
    copy.apply(batch_of(spark, [(1, "a", None, -2)]), 1, "q")
    assert held_rows(database) == Counter({(None, "a", None): 1})


def test_changes_that_do_not_fit_the_key_are_refused(spark: SparkSession, database: Database) -> None:
    copy = database.copy(spark, key="k")
    copy.apply(batch_of(spark, [(1, "a", None, 1)]), 0, "q")
    for rows, message in (
        ([(2, "a", None, -1)], r"takes away the row with key \(k=2\), which table copy does not hold"),
        ([(1, "b", None, 1)], r"adds a row with key \(k=1\), which table copy holds already"),
        ([(2, "a", None, 1), (2, "b", None, 1)], r"2 rows have the key \(k=2\); choose key columns"),
        ([(2, "a", None, 2)], r"2 rows have the key \(k=2\); choose key columns"),
        ([(None, "a", None, 1)], r"a row has no key: \(k=NULL\); choose key columns that are never NULL"),
    ):
        with pytest.raises(ChangeError, match=message):
            copy.apply(batch_of(spark, [(5, "x", None, 1), *rows]), 1, "q")
    assert database.rows("SELECT s FROM copy") == [("a",)] and stages(database) == 0


def test_a_failure_before_the_commit_leaves_the_batch_out(
    spark: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = database.copy(spark)
    copy.apply(batch_of(spark, [(1, "a", None, 1)]), 0, "q")
    whole = JdbcCopy._merge

    def cut(self: JdbcCopy, *args: Any) -> None:
        whole(self, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(JdbcCopy, "_merge", cut)
        with pytest.raises(KeyboardInterrupt):
            copy.apply(batch_of(spark, [(2, "b", None, 1)]), 1, "q")
    assert held_rows(database) == Counter({(1, "a", None): 1})
    copy.apply(batch_of(spark, [(2, "b", None, 1)]), 1, "q")
    assert held_rows(database) == Counter({(1, "a", None): 1, (2, "b", None): 1})


def test_of_two_writers_one_fails(spark: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, other = database.copy(spark), database.copy(spark)
    whole = JdbcCopy._save

    def slowly(self: JdbcCopy, rows: DataFrame) -> None:
        monkeypatch.setattr(JdbcCopy, "_save", whole)
        other.apply(batch_of(spark, [(1, "a", None, 1)]), 0, "q")
        whole(self, rows)

    monkeypatch.setattr(JdbcCopy, "_save", slowly)
    with pytest.raises(StateError, match=r"batch 0 of table copy could not be recorded.*stop one of the two"):
        copy.apply(batch_of(spark, [(1, "a", None, 1)]), 0, "q")
    assert held_rows(database) == Counter({(1, "a", None): 1})


def test_types_are_distinguished_exactly(spark: SparkSession, database: Database) -> None:
    """Rows that differ in a microsecond, in the last digit of a double, in the position of NULL, in trailing blanks."""
    schema = "t TIMESTAMP, x DOUBLE, a STRING, b STRING, y BINARY, _weight BIGINT"
    at = "TIMESTAMP '2024-10-27 00:30:00.000001 UTC'"
    rows = [
        (at, "0.1D", "'1'", "NULL", "X'00'"),
        (at.replace("000001", "000002"), "0.1D", "'1'", "NULL", "X'00'"),
        (at.replace("00:30", "01:30"), "0.1D", "'1'", "NULL", "X'00'"),  # the same hour on clocks that were set back
        (at, "0.1D + 1e-17D", "'1'", "NULL", "X'01'"),
        (at, "0.30000000000000004D", "'1'", "NULL", "X'00'"),
        (at, "0.1D", "NULL", "'1'", "X'00'"),
        (at, "0.1D", "'1 '", "NULL", "X'00'"),
        (at, "-0.0D", "'1'", "NULL", "NULL"),
    ]
    copy = database.copy(spark, schema)

    def changes(weight: int, zero: str) -> DataFrame:
        values = ", ".join(f"({', '.join(r)}, {weight}L)" for r in rows).replace("-0.0D", zero)
        return spark.sql(f"SELECT * FROM VALUES {values} AS v(t, x, a, b, y, _weight)")

    copy.apply(changes(2, "-0.0D"), 0, "q")
    assert [int(w) for (w,) in database.rows('SELECT "_weight" FROM copy')] == [2] * len(rows)
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        copy.apply(changes(-2, "0.0D"), 1, "q")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert database.rows("SELECT * FROM copy") == []


def test_as_a_query_that_is_stopped_and_restarted(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"

    def run(options: dict[str, str]) -> None:
        changes = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(files))
        trigger = {"availableNow": True}
        query = materialize(changes, database.url, checkpoint=str(checkpoint), trigger=trigger, options=options)
        query.awaitTermination()

    def write(rows: list[Row]) -> None:
        batch_of(spark, rows).coalesce(1).write.mode("append").parquet(str(files))

    write([(1, "a", None, 2)])
    run(database.options())
    shutil.copytree(checkpoint, tmp_path / "older")
    write([(1, "a", None, -1), (2, "b", Decimal("0.50"), 1)])
    run(database.options())
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "older", checkpoint)
    run(database.options())
    assert held_rows(database) == Counter({(1, "a", None): 1, (2, "b", Decimal("0.50")): 1})


def test_refusals_name_the_fault_and_the_remedy(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    batch_of(spark, [(1, "a", None, 1)]).write.parquet(str(tmp_path / "files"))
    changes = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "files"))

    def refused(kind: type[FreshetError], message: str, **options: str) -> None:
        given = {k: v for k, v in {**database.options(), **options}.items() if v}
        with pytest.raises(kind, match=message):
            materialize(changes, database.url, checkpoint=str(tmp_path / "checkpoint"), options=given)

    refused(PlanError, "needs the option table", table="")
    refused(PlanError, "needs the option driver", driver="")
    refused(
        PlanError, r"no.such.Driver is not on Spark's class path; name its jar in spark.jars", driver="no.such.Driver"
    )
    refused(PlanError, "is not a plain table name", table="copy; DROP TABLE x")
    refused(PlanError, "no column z for the key; it has k, s, d", key="z")
    wrong = "org.postgresql.Driver" if "sqlite" in database.url else "org.sqlite.JDBC"
    if has_driver("sqlite") and has_driver("postgresql"):
        refused(PlanError, "does not take URLs of jdbc:", driver=wrong)
    with pytest.raises(PlanError, match="give checkpoint= a folder"):
        materialize(changes, database.url, options=database.options())
    database.rows("CREATE TABLE mine (k BIGINT, s TEXT, d DECIMAL(10,2))")
    refused(StateError, "table mine has the columns k, s, d, and needs k, s, d, _weight, _row", table="mine")
    database.copy(spark, table="mine", key="k")  # an empty table of one's own will do
    database.rows("CREATE TABLE full_one AS SELECT 1 AS k, 'a' AS s, 1.5 AS d")
    refused(StateError, "table full_one is not empty and was not made by materialize", table="full_one", key="k")
    database.rows("DROP TABLE mine")
    refused(StateError, "table mine is gone, and freshet_batches says it was filled", table="mine", key="k")
