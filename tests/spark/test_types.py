"""Types that travel to Python and back in a form of their own, as columns of streams and of views."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import freshet
from freshet.spark import maintain, snapshot
from tests.spark.streams import batch, read_files, run, write_files

DDL = "CREATE TABLE t (id INT PRIMARY KEY, i INTERVAL DAY TO SECOND, j INTERVAL YEAR TO MONTH)"
SCHEMA = pa.schema([("id", pa.int32()), ("s", pa.int32()), ("m", pa.int32()), ("_weight", pa.int64())])
STREAM = ("id", "make_dt_interval(0, 0, 0, s) AS i", "make_ym_interval(0, m) AS j", "_weight")
#: Views, and their final answers: each column as text.
VIEWS = {
    "parts": (
        "SELECT i * 2 AS i, j, CAST(j AS INTERVAL MONTH) AS m FROM t WHERE i > INTERVAL '1' SECOND",
        [("INTERVAL '0 00:04:00' DAY TO SECOND", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '14' MONTH")],
    ),
    "totals": (
        "SELECT SUM(i) AS i, MAX(j) AS j FROM t",
        [("INTERVAL '0 00:02:01' DAY TO SECOND", "INTERVAL '1-2' YEAR TO MONTH")],
    ),
}


BYTES = "CREATE TABLE t (k BINARY PRIMARY KEY, v BINARY, s STRING)"
BYTES_SCHEMA = pa.schema([("k", pa.binary()), ("v", pa.binary()), ("s", pa.string()), ("_weight", pa.int64())])
BYTES_VIEWS = {
    "pairs": "SELECT a.k, b.s FROM t AS a JOIN t AS b ON a.v = b.v WHERE a.k < X'FF'",
    "groups": "SELECT v, COUNT(*) AS n, MAX(k) AS k, COUNT(DISTINCT s) AS d FROM t GROUP BY v",
    "lists": "SELECT ARRAY_AGG(v) AS l, STRING_AGG(k, X'2C') AS j FROM t",
    "top": "SELECT k, SUBSTRING(v, 2) || X'00' AS v FROM t ORDER BY k DESC LIMIT 2",
    "text": "SELECT HEX(k) AS h, CAST(s AS BINARY) AS b FROM t WHERE v = 'ab'",
}


def stream(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    rows = [
        pa.table([[1, 2], [120, 7], [14, 3], [1, 1]], schema=SCHEMA),
        pa.table([[2, 3], [7, 1], [3, None], [-1, 1]], schema=SCHEMA),
    ]
    write_files(folder, {"t": SCHEMA}, [{"t": r} for r in rows])
    return {"t": read_files(spark, folder, ["t"])["t"].selectExpr(*STREAM)}


def texts(rows: DataFrame) -> list[tuple[str | None, ...]]:
    shown = rows.selectExpr(*(f"CAST(`{c}` AS STRING)" for c in rows.columns))
    return sorted((tuple(r) for r in shown.collect()), key=str)


def test_intervals_of_several_views(spark: SparkSession, tmp_path: Path) -> None:
    queries = {name: sql for name, (sql, _) in VIEWS.items()}
    changes = maintain(spark, queries, stream(spark, tmp_path / "in"), schema=DDL, shards=2)
    run(changes, tmp_path / "out", tmp_path / "checkpoint")
    for name, (_, expected) in VIEWS.items():
        assert texts(snapshot(spark, str(tmp_path / "checkpoint"), name)) == expected


def test_intervals_of_one_view(spark: SparkSession, tmp_path: Path) -> None:
    sql, _ = VIEWS["totals"]
    changes = maintain(spark, sql, stream(spark, tmp_path / "in"), schema=DDL, shards=1)
    assert dict(changes.dtypes) == {"i": "interval day to second", "j": "interval year to month", "_weight": "bigint"}
    shown = changes.selectExpr("CAST(i AS STRING) AS i", "CAST(j AS STRING) AS j", "_weight")
    run(shown, tmp_path / "out", tmp_path / "checkpoint")
    last = batch(tmp_path / "out", 1).sort_by("_weight").to_pylist()
    assert [tuple(r.values()) for r in last] == [
        ("INTERVAL '0 00:02:07' DAY TO SECOND", "INTERVAL '1-2' YEAR TO MONTH", -1),
        ("INTERVAL '0 00:02:01' DAY TO SECOND", "INTERVAL '1-2' YEAR TO MONTH", 1),
    ]


def test_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """The same as in one process, on any shard."""
    first = [[b"", b"\xff\xfe", b"\x80", b"a"], [b"ab", b"ab", b"\xff", None], ["x", "y", None, "z"], [1, 1, 1, 1]]
    second = [[b"\x80", b"\x80", b"a"], [b"\xff", b"ab", None], [None, "w", "z"], [-1, 1, -1]]
    changes = [pa.table(columns, schema=BYTES_SCHEMA) for columns in (first, second)]
    write_files(tmp_path / "in", {"t": BYTES_SCHEMA}, [{"t": r} for r in changes])
    streams = read_files(spark, tmp_path / "in", ["t"])
    run(maintain(spark, BYTES_VIEWS, streams, schema=BYTES, shards=2), tmp_path / "out", tmp_path / "checkpoint")
    db = freshet.connect()
    db.execute(BYTES)
    for rows in changes:
        db.apply({"t": rows})
    for name, sql in BYTES_VIEWS.items():
        expected = db.create_view(name, sql).to_arrow()
        shown = snapshot(spark, str(tmp_path / "checkpoint"), name)
        collected = [tuple(bytes(v) if isinstance(v, bytearray) else v for v in r) for r in shown.collect()]
        assert sorted(map(repr, collected)) == sorted(repr(tuple(r.values())) for r in expected.to_pylist())
    assert dict(snapshot(spark, str(tmp_path / "checkpoint"), "top").dtypes) == {"k": "binary", "v": "binary"}
