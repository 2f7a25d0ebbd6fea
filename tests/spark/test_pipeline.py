"""A view inside a Spark declarative pipeline: the example, run by Spark's own command."""

from __future__ import annotations

import decimal
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import ROOT
from tests.spark.streams import Sum

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        any(importlib.util.find_spec(m) is None for m in ("grpc", "grpc_status", "yaml", "zstandard")),
        reason='pipelines need more than Spark: pip install "pyspark[pipelines]"',
    ),
]


def write(folder: Path, number: int, orders: list[tuple[int, str, int]], lines: list[tuple[int, str, int]]) -> None:
    columns = [list(c) for c in zip(*orders, strict=True)]
    pq.write_table(pa.table(columns, ["id", "customer", "_weight"]), folder / "orders" / f"{number}.parquet")
    ids, prices, weights = (list(c) for c in zip(*lines, strict=True))
    amounts = pa.array([decimal.Decimal(p) for p in prices], pa.decimal128(12, 2))
    table = pa.table([ids, amounts, weights], ["order_id", "price", "_weight"])
    pq.write_table(table, folder / "lines" / f"{number}.parquet")


def pipelines(folder: Path, command: str) -> int:
    """Runs a command of `spark-pipelines` over the folder `pipeline`; its output is added to `log`."""
    import pyspark

    paths = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"}
    words = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), command, "--remote", "local[2]",
               "--conf", "spark.sql.catalogImplementation=hive", "--conf", "spark.ui.enabled=false",
               "--conf", "spark.driver.host=127.0.0.1"]  # fmt: skip
    with open(folder / "log", "ab") as log:
        place = folder / "pipeline"
        return subprocess.run(words, cwd=place, env=environment, stdout=log, stderr=log, check=False).returncode


def run(folder: Path) -> None:
    assert pipelines(folder, "run") == 0, (folder / "log").read_text()[-4000:]


@pytest.mark.timeout(1800)
def test_the_example(spark: SparkSession, tmp_path: Path) -> None:
    source, copy = ROOT / "examples" / "pipeline", tmp_path / "pipeline"
    (copy / "transformations").mkdir(parents=True)
    for name in ("spark-pipeline.yml", "transformations/totals.py"):
        (copy / name).write_text((source / name).read_text().replace("/tmp/freshet-pipeline", str(tmp_path)))
    for name in ("orders", "lines"):
        (tmp_path / "in" / name).mkdir(parents=True)
    write(tmp_path / "in", 0, [(1, "ann", 1), (2, "bob", 1)], [(1, "1.50", 1), (1, "2.00", 1), (2, "4.00", 1)])
    run(tmp_path)
    write(tmp_path / "in", 1, [(2, "bob", -1), (3, "cid", 1)], [(1, "2.00", -1), (3, "7.00", 1)])
    run(tmp_path)  # continues from the first
    total = Sum()
    total.add(spark.read.parquet(str(copy / "spark-warehouse" / "totals")).toArrow())
    assert total.weights == {("ann", 1, decimal.Decimal("1.50")): 1, ("cid", 1, decimal.Decimal("7.00")): 1}


#: A step in Python over a table of the same pipeline, whose columns nobody asks Spark for.
STEP = """
from pyspark import pipelines
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

spark = SparkSession.active()
ID = StructType([StructField("id", LongType())])


class Passing(StatefulProcessor):
    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timerValues):
        yield from rows

    def close(self):
        pass


@pipelines.table
def orders():
    return spark.readStream.schema(ID).parquet(spark.conf.get("files"))


@pipelines.table
def step():
    stream = spark.readStream.table("orders")
    stream._cached_schema = ID
"""
STATELESS = "    return stream.mapInArrow(lambda batches: batches, ID)\n"
STATEFUL = "    return stream.groupBy('id').transformWithState(Passing(), ID, 'append', 'none')\n"


@pytest.mark.timeout(1800)
def test_no_stateful_step_over_a_table_of_the_same_pipeline(tmp_path: Path) -> None:
    """Why streams cannot be tables of the same pipeline (docs/howto/spark-cluster.md): Spark looks such a table up when
    the pipeline is defined, before it exists."""
    home = tmp_path / "pipeline"
    (home / "transformations").mkdir(parents=True)
    given = (ROOT / "examples" / "pipeline" / "spark-pipeline.yml").read_text()
    (home / "spark-pipeline.yml").write_text(given.replace("/tmp/freshet-pipeline", str(tmp_path)))
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "in" / "0.parquet")
    step = home / "transformations" / "step.py"
    step.write_text(STEP + STATELESS)
    assert pipelines(tmp_path, "dry-run") == 0, (tmp_path / "log").read_text()[-4000:]
    (tmp_path / "log").unlink()
    step.write_text(STEP.replace("    stream._cached_schema = ID\n", "") + STATELESS)
    assert pipelines(tmp_path, "dry-run") != 0
    assert "[ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION]" in (tmp_path / "log").read_text()
    step.write_text(STEP + STATEFUL)
    assert pipelines(tmp_path, "dry-run") != 0
    assert "[TABLE_OR_VIEW_NOT_FOUND] The table or view `orders` cannot be found" in (tmp_path / "log").read_text()
