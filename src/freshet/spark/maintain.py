"""maintain: streaming DataFrames of changes in, a streaming DataFrame of changes out."""

from __future__ import annotations

import functools
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions

from freshet.arrow import to_arrow
from freshet.changes import CHANGE_TYPE, WEIGHT
from freshet.errors import PlanError
from freshet.plans import Plan
from freshet.plans import plan as make_plan
from freshet.plans.unsorted import as_bag
from freshet.spark.block import from_block
from freshet.spark.encode import BLOCKS, Encoder, needed_columns, read_job
from freshet.spark.explain import explain_job
from freshet.spark.job import SEQUENCE, Job, ViewOutput
from freshet.spark.level import Level
from freshet.spark.quarantine import COLUMNS, QUARANTINE, refused_rows
from freshet.spark.sink.folder import LocalFolder, open_folder
from freshet.spark.sizes import chosen_sizes
from freshet.spark.stages import make_job
from freshet.sql import Catalog
from freshet.sql.bound import Field
from freshet.state.kernel import compile_kernels
from freshet.types import Type

VIEW = "_view"
_VERSIONS = 10  # of a state with all its rows, beyond which a checkpoint is mostly history
logger = logging.getLogger("freshet.spark")

Views = str | Plan | Mapping[str, str | Plan]


def maintain(
    spark: SparkSession, views: Views, tables: Mapping[str, DataFrame], *, schema: str | Catalog | None = None,
    shards: int | None = None, sizes: Mapping[str, float] | None = None, arena: str | None = "",
    sequence: str | Mapping[str, str] | None = None, on_error: str = "stop", check_keys: bool = False,
    checkpoint: str | None = None, profile: str | None = None,
) -> DataFrame:  # fmt: skip
    """Keeps one view, or several by name, fresh over streams of changes of `tables`.

    The result is a stream of the view's columns and `_weight`; with several views, of `_view`, a struct of columns for
    each view (NULL in the rows of others) and `_weight`: see `split`. `schema` holds the CREATE TABLE statements.
    `shards` defaults to spark.sql.shuffle.partitions, which it should equal. `sizes` are rows by table, for the choice
    of the grid. Where none are given and `checkpoint` names the folder the query will be started with, they are
    measured on the first micro-batch, which is then read twice, and kept in that folder: a restart finds the same grid.
    Without either, tables are taken to be larger than those they refer to. With `checkpoint` the rows of the state are
    files in that folder, there once, and Spark's state store keeps versions of their names; without it, or where the
    workers do not have it as a folder (it is on an object store), every version Spark keeps has the rows. `arena` is a
    folder on every worker for the cached state (None: none is cached). `sequence` names the column that orders the
    changes of a table (by table, or one name for all that have it): such tables may bring upserts and deletes by key
    alone. Of one key the change with the highest sequence counts, in whatever order and micro-batches they come: a
    change that is late is ignored. (Of removed keys the last are remembered, as many as the table has rows and 10,000
    at least a shard.)

    A change that cannot be applied (a value that does not fit, NULL in NOT NULL, a second row with a primary key, the
    removal of a row that is not there) stops the query before anything of its micro-batch is told or kept. A second row
    with a primary key is noticed where the table has a sequence, where both rows meet on a shard, or with `check_keys`,
    for which tables with a primary key pass a level that keeps their rows by key. With
    `on_error="quarantine"` it is set aside instead and the rest goes on: the result then always has the form of several
    views (one query is called `view`) with one more struct, `_quarantine`, of table, row (JSON) and reason: see
    `quarantined`. To find every bad change, tables then pass a level that knows all their rows.
    """
    if on_error not in ("stop", "quarantine"):
        raise PlanError(f'on_error is {on_error!r}; give "stop" or "quarantine"')
    count = shards if shards is not None else int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    if count < 1:
        raise PlanError(f"{count} shards; give 1 or more")
    if str(count) != spark.conf.get("spark.sql.shuffle.partitions"):
        logger.warning(
            "freshet: %s shards, but spark.sql.shuffle.partitions is %s; make them equal, or partitions stay empty",
            count, spark.conf.get("spark.sql.shuffle.partitions"),
        )  # fmt: skip
    beside = None if checkpoint is None else _folder(spark, checkpoint)
    if beside is None:
        _advise(spark)
    _look_at(tables)
    ordered = _sequences(tables, sequence)
    if checkpoint is not None and count > 1:
        sizes = chosen_sizes(spark, checkpoint, sizes, tables)
    job = compile_job(views, schema, count, sizes, list(ordered), on_error == "quarantine", check_keys)
    logger.info("freshet: %s", explain_job(job, sizes))
    compile_kernels()  # workers on this machine then find them in the cache, instead of all compiling at once
    folder = arena if arena != "" else os.path.join(tempfile.gettempdir(), "freshet")
    job_text = job.to_text()
    blocks = _encoded(job, job_text, tables, ordered, profile)
    for level in range(job.levels):
        processor = Level(job_text, level, folder, beside, profile)
        blocks = blocks.groupBy("key").transformWithState(processor, BLOCKS, "append", "none")
    single = not isinstance(views, Mapping) and not job.quarantine
    return blocks.mapInArrow(Decoder(job_text, single), _result_ddl(job, single))


def explain(
    views: Views, schema: str | Catalog | None = None, shards: int = 1, sizes: Mapping[str, float] | None = None
) -> str:
    """How the views would run on so many shards: levels, grids and what each table sends. The sizes a running query was
    laid out by are told by `sizes(spark, checkpoint)`."""
    return explain_job(compile_job(views, schema, shards, sizes), sizes)


def split(changes: DataFrame, view: str) -> DataFrame:
    """One view's changes out of several: its columns and `_weight`."""
    return changes.where(functions.col(VIEW) == view).select(f"`{view}`.*", WEIGHT)


def quarantined(changes: DataFrame) -> DataFrame:
    """The changes set aside by `on_error="quarantine"`: table, row as JSON, reason."""
    return split(changes, QUARANTINE).drop(WEIGHT)


def compile_job(
    views: Views, schema: str | Catalog | None, shards: int, sizes: Mapping[str, float] | None,
    normalized: Sequence[str] = (), quarantine: bool = False, checked: bool = False,
) -> Job:  # fmt: skip
    named = views if isinstance(views, Mapping) else {"view": views}
    if not named:
        raise PlanError("no views; give a query, or a dict of name to query")
    if QUARANTINE in named:
        raise PlanError(f"{QUARANTINE} is the name of what is set aside; give the view another")
    catalog = Catalog.from_ddl(schema) if isinstance(schema, str) else schema
    plans = {}
    for name, view in named.items():
        if isinstance(view, Plan):
            plans[name] = as_bag(view.root)
            continue
        if catalog is None:
            raise PlanError("a query needs the schema of its tables; give schema= the CREATE TABLE statements")
        plans[name] = as_bag(make_plan(view, catalog).root)
    return make_job(plans, shards, sizes, normalized, quarantine, checked)


def _folder(spark: SparkSession, checkpoint: str) -> str | None:
    """The checkpoint as a path on every machine, if it is one: what is no disk of their own they share."""
    folder = open_folder(spark, checkpoint)
    return folder.path if isinstance(folder, LocalFolder) else None


def _advise(spark: SparkSession) -> None:
    """Says what makes a checkpoint larger than it need be."""
    kept = int(str(spark.conf.get("spark.sql.streaming.minBatchesToRetain")))
    if kept > _VERSIONS:
        logger.warning(
            "freshet: the checkpoint keeps the rows of the last %s batches (spark.sql.streaming.minBatchesToRetain); "
            "give maintain() the query's folder as checkpoint= and it keeps them once, or set a smaller number", kept,
        )  # fmt: skip


def _look_at(tables: Mapping[str, DataFrame]) -> None:
    """Columns must be known here, and Spark's own mapInArrow asks for them as well."""
    try:
        for df in tables.values():
            _ = df.columns
    except AnalysisException as e:
        if e.getCondition() != "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION":
            raise
        raise PlanError(
            "maintain() looks at the columns of its streams, which Spark forbids inside a pipeline's query function; "
            "call it at the top of the file, over sources outside of the pipeline, and return what it gave"
        ) from None


# In -------------------------------------------------------------------------------------------------------------


def _sequences(tables: Mapping[str, DataFrame], sequence: str | Mapping[str, str] | None) -> dict[str, str]:
    """The column that orders each table's changes, by table in lower case."""
    if sequence is None:
        return {}
    if isinstance(sequence, str):
        return {name.lower(): sequence for name, df in tables.items() if sequence in df.columns}
    for name, column in sequence.items():
        df = next((df for n, df in tables.items() if n.lower() == name.lower()), None)
        if df is None or column not in df.columns:
            raise PlanError(f"the stream of {name} has no column {column} to order its changes by; add it")
    return {name.lower(): column for name, column in sequence.items()}


def _encoded(
    job: Job, job_text: str, tables: Mapping[str, DataFrame], ordered: Mapping[str, str], profile: str | None
) -> DataFrame:
    given = {name.lower(): df for name, df in tables.items()}
    parts = []
    for table in job.tables:
        name = table.name.lower()
        if name not in given:
            raise PlanError(f"no stream for table {table.name}; the streams given are {', '.join(given) or 'none'}")
        df = given[name]
        columns = {c.lower(): c for c in df.columns}
        moment = ordered.get(name)
        own = (WEIGHT, CHANGE_TYPE, moment)
        unknown = [c for c in df.columns if table.position(c) is None and c not in own]
        if unknown:
            near = get_close_matches(unknown[0], [f.name for f in table.fields], 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise PlanError(f"table {table.name} has no column {unknown[0]}{hint}; select the table's own columns")
        if WEIGHT in columns and CHANGE_TYPE in columns:
            raise PlanError(f"the stream of {table.name} carries both {WEIGHT} and {CHANGE_TYPE}; keep one")
        wanted = []
        for position in needed_columns(job, name):
            field = table.fields[position]
            if field.name.lower() in columns:
                wanted.append(columns[field.name.lower()])
            elif not field.nullable and (moment is None or position in table.primary_key):
                raise PlanError(f"the stream of {table.name} lacks {field.name}, which is NOT NULL; add the column")
        wanted += [c for c in (WEIGHT, CHANGE_TYPE) if c in columns]
        chosen = [functions.col(f"`{c}`") for c in wanted]
        if moment is not None:
            chosen.append(functions.col(f"`{moment}`").alias(SEQUENCE))
        parts.append(df.select(*chosen).mapInArrow(Encoder(job_text, name, profile), BLOCKS))
    return functools.reduce(DataFrame.union, parts)


# Out ------------------------------------------------------------------------------------------------------------


class Decoder:
    """A function for mapInArrow: blocks of the views' deltas in, rows out."""

    def __init__(self, job_text: str, single: bool) -> None:
        self.job_text, self.single = job_text, single

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = read_job(self.job_text)
        for batch in batches:
            for stream, payload in zip(batch.column("stream").to_pylist(), batch.column("payload"), strict=True):
                if stream == QUARANTINE:
                    yield self._batch(job, QUARANTINE, refused_rows(payload.as_py()), None)
                for view in (v for v in job.views if stream in v.operators):
                    yield self._rows(job, view, payload.as_py())

    def _rows(self, job: Job, view: ViewOutput, payload: bytes) -> pa.RecordBatch:
        rows = from_block(payload, [f.type for f in view.fields])
        arrays = [out_array(to_arrow(c), f.type) for c, f in zip(rows.columns, view.fields, strict=True)]
        weights = pa.array(rows.weights)
        if self.single:
            return pa.RecordBatch.from_arrays([*arrays, weights], [*(f.name for f in view.fields), WEIGHT])
        return self._batch(job, view.name, arrays, weights)

    def _batch(self, job: Job, name: str, arrays: list[pa.Array], weights: pa.Array | None) -> pa.RecordBatch:
        """Rows of one view, or those set aside, among all."""
        kinds = {v.name: pa.struct([(f.name, out_type(f.type)) for f in v.fields]) for v in job.views}
        if job.quarantine:
            kinds[QUARANTINE] = pa.struct([(c, pa.string()) for c in COLUMNS])
        n = len(arrays[0])
        columns = [pa.array([name]).take(pa.array([0] * n))]
        for other, kind in kinds.items():
            own = [f.name for f in kind]
            columns.append(pa.StructArray.from_arrays(arrays, own) if other == name else pa.nulls(n, kind))
        ones = pa.array([1] * n, pa.int64())
        return pa.RecordBatch.from_arrays([*columns, ones if weights is None else weights], [VIEW, *kinds, WEIGHT])


def out_type(type_: Type) -> pa.DataType:
    if type_.items is not None:
        return pa.list_(out_type(type_.items))
    if type_.name == "TIMESTAMP":
        return pa.timestamp("us", tz="UTC")
    return pa.string() if type_.name == "VOID" else type_.to_arrow()


def out_array(array: pa.Array, type_: Type) -> pa.Array:
    return array if array.type == out_type(type_) else array.cast(out_type(type_))


def fields_ddl(fields: Iterable[Field]) -> str:
    return ", ".join(f"`{f.name}` {spark_type(f.type)}" for f in fields)


def spark_type(type_: Type) -> str:
    if type_.items is not None:
        return f"ARRAY<{spark_type(type_.items)}>"
    return "STRING" if type_.name in ("STRING", "VOID") else str(type_)


def _result_ddl(job: Job, single: bool) -> str:
    if single:
        return f"{fields_ddl(job.views[0].fields)}, {WEIGHT} BIGINT"
    structs = []
    for v in job.views:
        inside = ", ".join(f"`{f.name}`: {spark_type(f.type)}" for f in v.fields)
        structs.append(f"`{v.name}` STRUCT<{inside}>")
    if job.quarantine:
        structs.append(f"`{QUARANTINE}` STRUCT<{', '.join(f'`{c}`: STRING' for c in COLUMNS)}>")
    return f"{VIEW} STRING, {', '.join(structs)}, {WEIGHT} BIGINT"
