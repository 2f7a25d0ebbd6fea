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


def run(folder: Path) -> None:
    import pyspark

    paths = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run", "--remote", "local[2]",
               "--conf", "spark.sql.catalogImplementation=hive", "--conf", "spark.ui.enabled=false",
               "--conf", "spark.driver.host=127.0.0.1"]  # fmt: skip
    with open(folder / "log", "ab") as log:
        done = subprocess.run(command, cwd=folder / "pipeline", env=environment, stdout=log, stderr=log, check=False)
    assert done.returncode == 0, (folder / "log").read_text()[-4000:]


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
