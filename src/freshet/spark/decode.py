"""Decode: blocks of the views' deltas to rows, the last step of the stream, inside mapInArrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from freshet.database.change_type import WEIGHT
from freshet.logical.query import Field
from freshet.scalar.arrow import to_arrow
from freshet.scalar.types import Type, quoted
from freshet.spark.block import from_block
from freshet.spark.failure import plainly
from freshet.spark.job import Job
from freshet.spark.quarantine import COLUMNS, QUARANTINE, refused_rows
from freshet.spark.shipped import ShippedJob, read_job

VIEW = "_view"

#: Rows of a view: its name, their columns and their weights.
Delta = tuple[str, list[pa.Array], pa.Array]


class Decoder:
    """A function for mapInArrow: blocks of the views' deltas in, rows out."""

    def __init__(self, shipped: ShippedJob, single: bool) -> None:
        self.shipped, self.single = shipped, single
        self.__name__ = f"decode {' '.join(v.name for v in read_job(shipped).views)}"  # as Spark's plans call it

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = read_job(self.shipped)
        names = [f.name for f in job.views[0].fields]
        with plainly():
            for view, arrays, weights in self.deltas(batches):
                if self.single:
                    yield pa.RecordBatch.from_arrays([*arrays, weights], [*names, WEIGHT])
                else:
                    yield self._batch(job, view, arrays, weights)

    def deltas(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Delta]:
        """Parts of views' deltas, as they are in blocks, and what was set aside."""
        job = read_job(self.shipped)
        for batch in batches:
            for stream, payload in zip(batch.column("stream").to_pylist(), batch.column("payload"), strict=True):
                if stream == QUARANTINE:
                    refused = refused_rows(payload.as_py())
                    yield QUARANTINE, refused, pa.array([1] * len(refused[0]), pa.int64())
                for view in (v for v in job.views if stream in v.operators):
                    rows = from_block(payload.as_py(), [f.type for f in view.fields])
                    arrays = [out_array(to_arrow(c), f.type) for c, f in zip(rows.columns, view.fields, strict=True)]
                    yield view.name, arrays, pa.array(rows.weights)

    def _batch(self, job: Job, name: str, arrays: list[pa.Array], weights: pa.Array) -> pa.RecordBatch:
        """Rows of one view, or those set aside, among all."""
        kinds = {v.name: pa.struct([(f.name, out_type(f.type)) for f in v.fields]) for v in job.views}
        if job.quarantine:
            kinds[QUARANTINE] = pa.struct([(c, pa.string()) for c in COLUMNS])
        n = len(arrays[0])
        columns = [pa.array([name]).take(pa.array([0] * n))]
        for other, kind in kinds.items():
            own = [f.name for f in kind]
            columns.append(pa.StructArray.from_arrays(arrays, own) if other == name else pa.nulls(n, kind))
        return pa.RecordBatch.from_arrays([*columns, weights], [VIEW, *kinds, WEIGHT])


def out_type(type_: Type) -> pa.DataType:
    if type_.name == "ARRAY":
        return pa.list_(out_type(type_.parts[0]))
    if type_.name == "MAP":
        return pa.map_(*map(out_type, type_.parts))
    if type_.name == "STRUCT":
        return pa.struct([(name, out_type(t)) for name, t in type_.fields])
    if type_.name == "TIMESTAMP":
        return pa.timestamp("us", tz="UTC")
    return pa.string() if type_.name == "VOID" else type_.to_arrow()


def out_array(array: pa.Array, type_: Type) -> pa.Array:
    return array if array.type == out_type(type_) else array.cast(out_type(type_))


def decoded(
    blocks: DataFrame,
    decode: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ddl: Callable[[bool], str],
) -> DataFrame:
    """What a function for mapInArrow makes of blocks. `ddl(True)` names the types as they leave Python, where there is
    no interval of months but their number; `ddl(False)` those they have then."""
    made = blocks.mapInArrow(decode, ddl(True))
    if ddl(True) == ddl(False):
        return made
    fields = StructType.fromDDL(ddl(False))
    assert isinstance(fields, StructType)
    return made.select(*(col(f"`{f.name}`").cast(f.dataType).alias(f.name) for f in fields))


def fields_ddl(fields: Iterable[Field], arrow: bool = False) -> str:
    return ", ".join(f"`{f.name}` {spark_type(f.type, arrow)}" for f in fields)


def spark_type(type_: Type, arrow: bool = False) -> str:
    """With `arrow`, as mapInArrow takes it from Python."""
    if type_.name == "STRUCT":
        return f"STRUCT<{', '.join(f'{quoted(name)}: {spark_type(t, arrow)}' for name, t in type_.fields)}>"
    if type_.is_nested:
        return f"{type_.name}<{', '.join(spark_type(t, arrow) for t in type_.parts)}>"
    if arrow and type_.name == "MONTHS":
        return "INT"
    return "STRING" if type_.name in ("STRING", "VOID") else str(type_)


def result_ddl(job: Job, single: bool, arrow: bool = False) -> str:
    if single:
        return f"{fields_ddl(job.views[0].fields, arrow)}, {WEIGHT} BIGINT"
    structs = []
    for v in job.views:
        inside = ", ".join(f"`{f.name}`: {spark_type(f.type, arrow)}" for f in v.fields)
        structs.append(f"`{v.name}` STRUCT<{inside}>")
    if job.quarantine:
        structs.append(f"`{QUARANTINE}` STRUCT<{', '.join(f'`{c}`: STRING' for c in COLUMNS)}>")
    return f"{VIEW} STRING, {', '.join(structs)}, {WEIGHT} BIGINT"
