"""A micro-batch of several views, computed by one job of Spark, which brings views of few changes to this process.

Laws. The changes are computed once, in all partitions: the stream's own state depends on it. What is gathered of a view
is the sum of all its changes; otherwise Spark keeps them. A task sends no more than its share of `GATHERED` bytes, so
all of them together fit in memory.

Each job of Spark costs about as much processor time as the stream itself does for a small micro-batch, hence one. What
`maintain` returned is packed by the function that would decode it (`packed`), so that no row becomes one of Java, and
Spark keeps a few packed rows. Any other changes are kept as rows, and pass Python once more (`computed`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from freshet.database.change_type import WEIGHT
from freshet.spark.connect import is_remote
from freshet.spark.decode import VIEW
from freshet.spark.maintain import split
from freshet.spark.sink.batch import HASH, Batch, quoted
from freshet.spark.sink.pack import PACKED, Pack, PackBlocks, unpacked
from freshet.spark.sink.rows import arrow_schema, gathered_batch, summed
from freshet.spark.sink.spread import consolidated, hash_sql, spread_batch
from freshet.spark.undecoded import undecoded

GATHERED = 16 << 20  # bytes of all views


@dataclass(slots=True)
class MicroBatch:
    """Micro-batch `number` of the streaming query `query`."""

    spark: SparkSession
    number: int
    query: str
    schemas: Mapping[str, StructType]  # of the views whose changes are wanted
    rows: Callable[[str], DataFrame]  # the columns and weights of a view's changes
    appeared: dict[str, int] = field(default_factory=dict)  # of each view, the weights of rows that came
    vanished: dict[str, int] = field(default_factory=dict)  # and of those that went
    gathered: dict[str, pa.Table] = field(default_factory=dict)

    def give(self, view: str, use: Callable[[Batch], None]) -> None:
        """Passes the consolidated changes of a view on."""
        schema = self.schemas[view]
        if view in self.gathered:
            use(gathered_batch(self.gathered[view], schema, self.spark, self.number, self.query))
            return
        hashed = self.rows(view).selectExpr(f"{hash_sql(map(quoted, schema.names))} AS {HASH}", "*")
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
    known = _arrow_schemas(schemas)
    changes = changes.persist()
    batch = MicroBatch(changes.sparkSession, number, query, schemas, functools.partial(split, changes))
    try:
        columns = [sf.col(quoted(c)) for c in (VIEW, *known, WEIGHT)]
        share = GATHERED // max(1, _partitions(changes))
        _gather(batch, changes.select(*columns).mapInArrow(Pack(known, share), PACKED), known)
        yield batch
    finally:
        changes.unpersist()


@dataclass(frozen=True, slots=True)
class PackedStream:
    """Packs the changes of views where they are decoded, so that a micro-batch passes Python and Java once less."""

    schemas: Mapping[str, StructType]

    @contextmanager
    def computed(self, packed: DataFrame, number: int, query: str) -> Iterator[MicroBatch]:
        """The micro-batch whose changes were packed."""
        kept = packed.localCheckpoint(eager=False)  # costs less than persist()

        def rows(view: str) -> DataFrame:
            schema = self.schemas[view]
            fields = StructType([*(StructField(f.name, f.dataType) for f in schema), StructField(WEIGHT, LongType())])
            return kept.where(sf.col("view") == view).mapInArrow(unpacked, fields)

        try:
            batch = MicroBatch(packed.sparkSession, number, query, self.schemas, rows)
            _gather(batch, kept, _arrow_schemas(self.schemas))
            yield batch
        finally:
            _drop(kept)


def packed(changes: DataFrame, schemas: Mapping[str, StructType]) -> tuple[DataFrame, PackedStream] | None:
    """The stream of packed changes of views of these columns; None if they are not what `maintain` returned, or Arrow
    lacks one of their types."""
    found, known = undecoded(changes), _arrow_schemas(schemas)
    if found is None or len(known) < len(schemas):
        return None
    share = GATHERED // max(1, _shuffled(changes.sparkSession))
    return found.blocks.mapInArrow(PackBlocks(found.decoder, known, share), PACKED), PackedStream(schemas)


def _arrow_schemas(schemas: Mapping[str, StructType]) -> dict[str, pa.Schema]:
    found = {view: arrow_schema(schema) for view, schema in schemas.items()}
    return {view: schema for view, schema in found.items() if schema is not None}


def _gather(batch: MicroBatch, packs: DataFrame, schemas: Mapping[str, pa.Schema]) -> None:
    """Collects what each task has of each view."""
    parts: dict[str, list[pa.Table] | None] = {view: [] for view in schemas}
    for view, appeared, vanished, payload in packs.where("appeared IS NOT NULL").drop("part").collect():
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


def _partitions(changes: DataFrame) -> int:
    if is_remote(changes.sparkSession):
        return _shuffled(changes.sparkSession)
    return int(changes._jdf.queryExecution().toRdd().getNumPartitions())


def _shuffled(spark: SparkSession) -> int:
    return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


def _drop(kept: DataFrame) -> None:
    """Removes what was kept. A server of Spark Connect does so when `kept` is gone."""
    if not is_remote(kept.sparkSession):
        kept._jdf.queryExecution().logical().rdd().unpersist(False)
