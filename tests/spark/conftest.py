"""One Spark session for all Spark tests, and streams of transactions as files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from freshet.spark.session import chosen_settings
from tests.spark.databases import driver_jars

ROOT = Path(__file__).resolve().parents[2]


def settings(builder: SparkSession.Builder) -> SparkSession.Builder:
    """The settings of `freshet.spark.session` for a small machine, whatever this one is: streams of a few seconds spend
    most of their processor time on starting."""
    frugal = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    given = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": frugal,
        "spark.executor.extraJavaOptions": frugal,
        "spark.sql.streaming.minBatchesToRetain": "100",  # Spark's own default, so that tests can go back
    }
    for name, value in chosen_settings("local", 2, given).items():
        builder = builder.config(name, value)
    return builder


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(map(str, driver_jars())))
    session = settings(builder.appName("freshet tests")).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
