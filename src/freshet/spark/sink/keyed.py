"""What a micro-batch does to each key of a view: how many rows came and went, and one of either."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from freshet.database.change_type import WEIGHT
from freshet.spark.sink.spread import columns_of

CAME, WENT, BEFORE, AFTER = "_came", "_went", "before", "after"


def changed_by_key(rows: DataFrame, key: Iterable[str], columns: Iterable[str]) -> DataFrame:
    """The key's columns, how many rows came and went, and the rows, of consolidated rows. NULL is a key like others."""
    weight, row = sf.col(WEIGHT), sf.struct(*columns_of(columns))
    return rows.groupBy(*columns_of(key)).agg(
        sf.sum(sf.greatest(weight, sf.lit(0))).alias(CAME),
        sf.sum(sf.greatest(-weight, sf.lit(0))).alias(WENT),
        sf.any_value(sf.when(weight < 0, row), True).alias(BEFORE),
        sf.any_value(sf.when(weight > 0, row), True).alias(AFTER),
    )
