"""The example of a shop's change feed."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from examples.shop_feed import main


def test_the_last_change_of_each_key_counts(spark: SparkSession, tmp_path: Path) -> None:
    assert main(spark, tmp_path) == [("Oslo", 2, 590)]
