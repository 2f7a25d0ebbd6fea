"""Debezium's envelopes as a stream of a table: snapshots, changes, removals, tombstones, and what cannot be read."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from freshet.errors import PlanError
from freshet.spark import debezium, maintain, reason, snapshot
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import run

DDL = "CREATE TABLE o (id BIGINT PRIMARY KEY, who STRING NOT NULL, day DATE, seen TIMESTAMP, paid DECIMAL(10,2));"
SQL = "SELECT who, COUNT(*) AS n, SUM(paid) AS paid, MAX(day) AS day, MIN(seen) AS seen FROM o GROUP BY who"
SCHEMA = pa.schema(
    [("id", pa.int64()), ("who", pa.string()), ("day", pa.date32()), ("seen", pa.timestamp("us", "UTC")),
     ("paid", pa.decimal128(10, 2))]
)  # fmt: skip

Row = dict[str, Any]


def wrapped(envelope: Row | None, whole: bool) -> str:
    if envelope is None:
        return ""
    return json.dumps({"schema": {"type": "struct"}, "payload": envelope} if whole else envelope)


def history(rng: random.Random, rows: dict[int, Row], first: int) -> list[str]:
    """Changes of random rows, as a connector writes them; what is there afterwards is in `rows`."""
    found = []
    for moment in range(first, first + 40):
        key = rng.randrange(8)
        before, after = rows.pop(key, None), None
        if before is None or rng.random() < 0.6:
            after = {"id": key, "who": rng.choice("ab"), "day": rng.randrange(20_000), "seen": moment * 1_000_000,
                     "paid": f"{rng.randrange(900)}.25"}  # fmt: skip
            rows[key] = after
        op = ("d" if after is None else "u") if before else rng.choice("cr")
        old_image = {"id": key, "who": None} if after is None and rng.random() < 0.5 else before
        envelope = {"before": old_image, "after": after, "op": op, "source": {"lsn": moment, "db": "shop"}, "ts_ms": 1}
        found.append(wrapped(envelope, rng.random() < 0.5))
        if op == "d":
            found.append(wrapped(None, False))  # a tombstone
        if rng.random() < 0.2:
            found.append(json.dumps({"op": "m", "source": {"lsn": moment}, "message": {"prefix": "x"}}))
    return found


def write(folder: Path, number: int, envelopes: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:03}.json"
    path.write_text("".join(json.dumps({"value": text or None}) + "\n" for text in envelopes))
    os.utime(path, (1e9 + number, 1e9 + number))


def read(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    stream = spark.readStream.schema("value STRING").option("maxFilesPerTrigger", "1").json(str(folder))
    return debezium(stream, DDL, "O", sequence="source.lsn", **options)


def arrow(rows: dict[int, Row]) -> pa.Table:
    columns = [[row[f.name] for row in rows.values()] for f in SCHEMA]
    arrays = [pa.array(c, pa.int64() if pa.types.is_timestamp(f.type) else pa.int32() if pa.types.is_date(f.type)
                       else pa.string() if pa.types.is_decimal(f.type) else f.type).cast(f.type)
              for c, f in zip(columns, SCHEMA, strict=True)]  # fmt: skip
    return pa.table(arrays, schema=SCHEMA)


def test_a_table_of_envelopes(spark: SparkSession, tmp_path: Path) -> None:
    """In whatever order they come, some twice, over a restart."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    rng, rows = random.Random(3), dict[int, Row]()
    for step in range(2):
        envelopes = history(rng, rows, 1 + 100 * step)
        envelopes += rng.sample(envelopes, 10)
        rng.shuffle(envelopes)
        half = len(envelopes) // 2
        write(tmp_path / "in", 2 * step, envelopes[:half])
        write(tmp_path / "in", 2 * step + 1, envelopes[half:])
        streams = {"o": read(spark, tmp_path / "in", timestamps="us")}
        place = tmp_path / "state"
        changes = maintain(spark, SQL, streams, schema=DDL, shards=1, sequence="_sequence", checkpoint=str(place))
        run(changes, tmp_path / "out", place)
        same_bag(snapshot(spark, str(place)).toArrow(), duckdb_answer(SQL, {"o": arrow(rows)}))


ROW = {"id": 1, "who": "a", "day": 3, "seen": None, "paid": "1.25"}


@pytest.mark.parametrize(
    ("envelope", "message"),
    [
        ({"after": {**ROW, "paid": "BQ=="}, "op": "c"}, "table o: paid is BQ==; have the connector write decimals"),
        ({"after": {**ROW, "seen": 5}, "op": "c"}, "table o: seen is 5; say what it counts"),
        ({"op": "t"}, 'table o: no change of a row is {"op": "t"'),
        ({"id": 1, "who": "a"}, "table o: no change of a row is "),
        ({"op": "c", "after": None}, "id is NULL or missing, and it is the primary key"),
    ],
    ids=["bytes", "time", "truncate", "no envelope", "no row"],
)
def test_refused(spark: SparkSession, tmp_path: Path, envelope: Row, message: str) -> None:
    write(tmp_path / "in", 0, [json.dumps({**envelope, "source": {"lsn": 1}})])
    changes = maintain(spark, SQL, {"o": read(spark, tmp_path / "in")}, schema=DDL, shards=1, sequence="_sequence")
    with pytest.raises(StreamingQueryException) as raised:
        run(changes, tmp_path / "out", tmp_path / "state")
    assert message in str(reason(raised.value))


def test_what_does_not_fit(spark: SparkSession) -> None:
    envelopes = spark.createDataFrame([("{}",)], "value STRING")
    for ddl, table, options, message in (
        (DDL, "p", {}, "the schema has no table p"),
        ("CREATE TABLE o (id BIGINT)", "o", {}, "table o has no primary key"),
        (DDL, "o", {}, "no column offset to order them by"),
        (DDL, "o", {"sequence": "op"}, "op does not order changes"),
        (DDL, "o", {"sequence": "source.lsn", "timestamps": "s"}, "timestamps is 's'; give 'ms' or 'us'"),
        ("CREATE TABLE o (id DECIMAL(9,0) PRIMARY KEY)", "o", {"sequence": "ts"}, "id is decimal(9,0), whose digits"),
    ):
        with pytest.raises(PlanError, match=message.replace("(", r"\(").replace(")", r"\)")):
            debezium(envelopes, ddl, table, **options)
    with pytest.raises(PlanError, match="no column value"):
        debezium(spark.range(1), DDL, "o", sequence="ts_ms")
