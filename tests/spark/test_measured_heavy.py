"""Heavy values are found in the first micro-batch, once, where nothing is given."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshet.spark import maintain, snapshot
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import read_files, run, write_files

pytestmark = pytest.mark.long
DDL = """CREATE TABLE account (id BIGINT PRIMARY KEY, name STRING);
CREATE TABLE payment (id BIGINT PRIMARY KEY, account BIGINT, total BIGINT)"""
SQL = "SELECT name, SUM(total) AS s FROM payment, account WHERE payment.account = account.id GROUP BY name"


def changes(first: int, rows: int, accounts: int) -> dict[str, pa.Table]:
    ids = np.arange(first, first + rows)
    ones = np.ones(rows, np.int64)
    of = np.where(ids % 10 < 7, 3, ids % 1_000)
    own = np.arange(accounts)
    names = pa.array([f"n{i % 50}" for i in own], pa.string())
    return {
        "payment": pa.table({"id": ids, "account": of, "total": ids % 7, "_weight": ones}),
        "account": pa.table({"id": own, "name": names, "_weight": np.ones(accounts, np.int64)}),
    }


def test_found_once(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "freshet.spark")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    steps = [changes(0, 20_000, 8_000), changes(20_000, 500, 0)]
    schemas = {name: table.schema for name, table in steps[0].items()}
    write_files(tmp_path / "in", schemas, steps[:1])
    checkpoint = str(tmp_path / "checkpoint")
    for number in range(2):
        streams = read_files(spark, tmp_path / "in", list(schemas))
        maintained = maintain(spark, SQL, streams, schema=DDL, shards=4, checkpoint=checkpoint)
        run(maintained, tmp_path / "out", tmp_path / "checkpoint")
        write_files(tmp_path / "in", schemas, steps[1:], 1)
        assert caplog.text.count("heavy values {'payment': {'account': {3: 0.7}}}") == 1
        assert caplog.text.count("rows of 1 heavy value hashed on id") == number + 1
    present = {n: pa.concat_tables([s[n] for s in steps]).drop_columns(["_weight"]) for n in schemas}
    same_bag(snapshot(spark, checkpoint).toArrow(), duckdb_answer(SQL, present))
