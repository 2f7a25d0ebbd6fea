"""Streams of times that the clock of a query follows: the system's, or one that is given (`clock.py`)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import DateType, StructType, TimestampType

from freshet.errors import PlanError
from freshet.logical.query import CLOCK
from freshet.spark.job import Job

_SOURCE, _EVERY, _OFFSET = "freshet_clock", "every", "microseconds"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock(spark: SparkSession, every: float = 1.0) -> DataFrame:
    """Read the system's time as a stream, for `clock` of `maintain`.

    Parameters
    ----------
    spark
        The session.
    every
        The seconds from one time to the next. Each starts a micro-batch, so that time also passes for streams that
        bring no rows; a trigger with a longer interval has one for all times of the interval.

    Returns
    -------
    pyspark.sql.DataFrame
        A stream of one column `now`, with one row in each micro-batch.

    Raises
    ------
    PlanError
        `every` is not positive.

    Examples
    --------
    >>> system_clock(spark, every=60).columns
    ['now']
    """
    if not every > 0:
        raise PlanError(f"the clock would tick every {every} seconds; give a positive number")
    spark.dataSource.register(SystemClock)
    return spark.readStream.format(_SOURCE).option(_EVERY, str(every)).load()


class SystemClock(DataSource):
    """A source of Spark's: a row with the time for each micro-batch."""

    @classmethod
    def name(cls) -> str:
        return _SOURCE

    def schema(self) -> str:
        return "now TIMESTAMP"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _Ticks(float(self.options[_EVERY]))


class _Ticks(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, every: float) -> None:
        self.every = max(1, round(every * 1e6))
        self.target: int | None = None  # the only time of a run over what is available

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {_OFFSET: 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        return {_OFFSET: max(start[_OFFSET], self._now() if self.target is None else self.target)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self._now()

    def _now(self) -> int:
        now = time.time_ns() // 1_000
        return now - now % self.every

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(end[_OFFSET])]

    def read(self, partition: InputPartition) -> Iterator[tuple[datetime]]:
        yield (_EPOCH + timedelta(microseconds=partition.value),)


def _times(clock: DataFrame) -> DataFrame:
    """Times given by a user, as changes of the clock."""
    if not clock.isStreaming or len(clock.columns) != 1:
        raise PlanError("clock is not a stream of one column; select the time alone, as in orders.select('ts')")
    (column,) = clock.schema
    if not isinstance(column.dataType, (DateType, TimestampType)):
        raise PlanError(f"clock is a stream of {column.dataType.simpleString()}; give timestamps or dates")
    (field,) = CLOCK.fields
    time = functions.col(f"`{column.name}`").cast("timestamp").alias(field.name)
    return clock.select(time).where(functions.col(field.name).isNotNull())


def with_clock(
    spark: SparkSession, job: Job, tables: Mapping[str, DataFrame], clock: DataFrame | None
) -> Mapping[str, DataFrame]:
    """The streams of a job, that of its clock included if it has one."""
    if CLOCK not in job.tables:
        return tables
    return {**tables, CLOCK.name: _times(system_clock(spark) if clock is None else clock)}
