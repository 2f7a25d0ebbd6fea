"""A micro-batch of several views, computed by one job of Spark, which brings views of few changes to this process.

Laws. The changes are computed once, in all partitions: the stream's own state depends on it. What is gathered of a view
is the sum of all its changes; otherwise Spark keeps them. A task sends no more than its share of `GATHERED` bytes, so
all of them together fit in memory.

Each job of Spark costs about as much processor time as the stream itself does for a small micro-batch, hence one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from freshet.database.change_type import WEIGHT
from freshet.spark.connect import is_remote
from freshet.spark.decode import VIEW
from freshet.spark.maintain import split
from freshet.spark.sink.batch import HASH, Batch, quoted
from freshet.spark.sink.pack import PACKED, Pack
from freshet.spark.sink.rows import arrow_schema, gathered_batch, summed
from freshet.spark.sink.spread import consolidated, hash_sql, spread_batch

GATHERED = 16 << 20  # bytes of all views


@dataclass(slots=True)
class MicroBatch:
    """Micro-batch `number` of the streaming query `query`."""

    changes: DataFrame  # of several views, persisted
    number: int
    query: str
    schemas: Mapping[str, StructType]  # of the views whose changes are wanted
    appeared: dict[str, int] = field(default_factory=dict)  # of each view, the weights of rows that came
    vanished: dict[str, int] = field(default_factory=dict)  # and of those that went
    gathered: dict[str, pa.Table] = field(default_factory=dict)

    def give(self, view: str, use: Callable[[Batch], None]) -> None:
        """Passes the consolidated changes of a view on."""
        schema, spark = self.schemas[view], self.changes.sparkSession
        if view in self.gathered:
            use(gathered_batch(self.gathered[view], schema, spark, self.number, self.query))
            return
        changes = split(self.changes, view)
        hashed = changes.selectExpr(f"{hash_sql(map(quoted, schema.names))} AS {HASH}", "*")
        rows = consolidated(hashed, schema.names).persist()
        try:
            use(spread_batch(rows, schema, self.number, self.query))
        finally:
            rows.unpersist()


def as_one_of_several(changes: DataFrame, view: str) -> DataFrame:
    """The changes of one view in the form of those of several."""
    columns = [sf.col(quoted(c)) for c in changes.columns if c != WEIGHT]
    return changes.select(sf.lit(view).alias(VIEW), sf.struct(*columns).alias(view), WEIGHT)


@contextmanager
def computed(changes: DataFrame, number: int, query: str, wanted: Iterable[str]) -> Iterator[MicroBatch]:
    """The micro-batch of the changes of several views, of which some are wanted."""
    types = {f.name: f.dataType for f in changes.schema}
    schemas = {view: type_ for view in wanted if isinstance(type_ := types[view], StructType)}
    batch = MicroBatch(changes.persist(), number, query, schemas)
    try:
        _gather(batch)
        yield batch
    finally:
        changes.unpersist()


def _gather(batch: MicroBatch) -> None:
    found = {view: arrow_schema(schema) for view, schema in batch.schemas.items()}
    schemas = {view: schema for view, schema in found.items() if schema is not None}
    parts: dict[str, list[pa.Table] | None] = {view: [] for view in schemas}
    for view, appeared, vanished, payload in _packed(batch.changes, schemas).collect():
        batch.appeared[view] = batch.appeared.get(view, 0) + appeared
        batch.vanished[view] = batch.vanished.get(view, 0) + vanished
        known = parts.get(view)
        if known is None or payload is None:
            parts[view] = None
        else:
            known.append(pa.ipc.open_stream(payload).read_all())
    for view, tables in parts.items():
        if tables is not None:
            whole = pa.concat_tables([schemas[view].empty_table(), *tables])
            batch.gathered[view] = summed(whole) if len(tables) > 1 else whole


def _packed(changes: DataFrame, schemas: Mapping[str, pa.Schema]) -> DataFrame:
    """What each task has of each view."""
    hashes = (
        f"WHEN {_text(view)} THEN {hash_sql(f'{quoted(view)}.{quoted(c)}' for c in schema.names[1:-1])}"
        for view, schema in schemas.items()
    )
    columns = [VIEW, *map(quoted, schemas), WEIGHT]
    if schemas:
        columns.append(f"CASE {VIEW} {' '.join(hashes)} END AS {HASH}")
    share = GATHERED // max(1, _partitions(changes))
    return changes.selectExpr(*columns).mapInArrow(Pack(dict(schemas), share), PACKED)


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _partitions(changes: DataFrame) -> int:
    spark = changes.sparkSession
    if is_remote(spark):
        return int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    return int(changes._jdf.queryExecution().toRdd().getNumPartitions())
