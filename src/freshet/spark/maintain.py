"""maintain: streaming DataFrames of changes in, a streaming DataFrame of changes out."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions

from freshet.database.change_type import WEIGHT
from freshet.errors import PlanError
from freshet.plans import Plan, codec
from freshet.plans import plan as make_plan
from freshet.plans.unsorted import as_bag
from freshet.spark.arenas import check_arenas
from freshet.spark.connect import check_shared
from freshet.spark.cuts import Strategy
from freshet.spark.decode import VIEW, Decoder, decoded, result_ddl
from freshet.spark.encode import BLOCKS
from freshet.spark.explain import dataflow, explain_job
from freshet.spark.failure import show_reason_first
from freshet.spark.growth import outgrown
from freshet.spark.heavy import Heavy, joined_columns
from freshet.spark.job import Job
from freshet.spark.level import Level
from freshet.spark.observed import observing
from freshet.spark.profile import note
from freshet.spark.quarantine import QUARANTINE
from freshet.spark.rebuild import complete
from freshet.spark.rebuild import rebuild as rebuild_state
from freshet.spark.record import Requested, claimed, has_started, kept_shards, must_rebuild, remembers
from freshet.spark.shipped import check_functions, pack_job
from freshet.spark.sink.folder import LocalFolder, open_folder
from freshet.spark.sizes import chosen_sizes, measured_heavy, shards_for
from freshet.spark.sources import encoded, sequences
from freshet.spark.stages import make_job
from freshet.spark.system_clock import with_clock
from freshet.spark.undecoded import remember_blocks
from freshet.sql.catalog import Catalog
from freshet.state.kernel_cache import compile_kernels

_VERSIONS = 10  # of a state with all its rows, beyond which a checkpoint is mostly history
logger = logging.getLogger("freshet.spark")

Views = str | Plan | Mapping[str, str | Plan]


def maintain(
    spark: SparkSession, views: Views, tables: Mapping[str, DataFrame], *, schema: str | Catalog | None = None,
    shards: int | None = None, sizes: Mapping[str, float] | None = None, arena: str | None = "",
    sequence: str | Mapping[str, str] | None = None, on_error: str = "stop", check_keys: bool = False,
    checkpoint: str | None = None, rebuild: bool = False, profile: str | None = None, heavy: Heavy | None = None,
    clock: DataFrame | None = None,
) -> DataFrame:  # fmt: skip
    """Keep one view, or several, fresh over streams of changes.

    Parameters
    ----------
    spark
        The session.
    views
        One view, as SQL or as a `freshet.Plan`, or several as a dict by name.
    tables
        A streaming DataFrame of changes for each table: its columns, and `_weight` or `_change_type` if rows do more
        than come.
    schema
        CREATE TABLE statements, or a `freshet.Catalog`, which may have functions in Python for views to call: they are
        sent to the workers. Not needed where all views are plans.
    shards
        In how many parts state is kept. By default one for each million rows, where `sizes` or `checkpoint` are given
        so that they are known, and at most spark.sql.shuffle.partitions, which it should equal: it is all of them where
        nothing is known. A restart finds the same number. On one shard all views are kept in one stateful step.
    sizes
        Rows by table, for the choice of the grid of shards. Where none are given and `checkpoint` is, they are measured
        on the first micro-batch, which is then read twice, and kept in that folder: a restart finds the same grid.
        Without either, tables are taken to be larger than those they refer to.
    arena
        A folder on every worker for the cached state, None for no cache. The default is one of this user's own in the
        temporary folder, closed to others. Arenas of queries that are gone are removed, and those not used for a week.
    sequence
        The column that orders the changes of a table with a primary key, by table, or one name for all that have it:
        whole numbers, dates or timestamps. Such tables may bring upserts, and deletes by key alone; see Notes.
    on_error
        What becomes of a change that cannot be applied: ``"stop"`` ends the query before anything of its micro-batch
        is emitted or kept, ``"quarantine"`` sets the change aside and goes on; see Notes.
    check_keys
        Whether tables with a primary key pass a level that keeps their rows by key, where a second row with a key is
        always noticed and a delete may give the key alone (what else it gives must be so, and a NULL gives nothing).
    checkpoint
        The folder the query will be started with. The rows of the state are then files in it, there once, and Spark's
        state store keeps versions of their names; without it, or where the workers do not have it as a folder (it is
        on an object store), every version Spark keeps has the rows. Another query than the one the folder belongs to
        (views, tables, sources, shards) is refused, with what differs.
    rebuild
        Whether the state in `checkpoint` is rebuilt if it belongs to another query: other views or shards, tables that
        are new, or have new columns; see Notes. Where `shards` is not given, it also moves to more shards if its
        rows need twice as many by now.
    profile
        A folder for notes on where time goes.
    heavy
        Values of join keys that many rows have, by table and column, each with the part of the table's rows that has
        it: ``{"payments": {"account": {17: 0.3}}}``. The rows of a value that is more than an even share of a shard are
        spread over all shards, and what they join is copied. Where neither they nor `sizes` are given and `checkpoint`
        is, they are looked for among up to 100,000 rows of each table in the first micro-batch, in columns of integers
        and text: the values of more than twice an even share. A restart finds the same with `checkpoint`; without, it
        has to give the same.
    clock
        A stream of one column of times, for views with NOW() and tables with `retain`: in a micro-batch it is the
        greatest time that has come until then. Where it is of rows, as in ``orders.select("ts")``, time passes as they
        come. The default is `system_clock`: the time at which a micro-batch was planned, every second.

    Returns
    -------
    pyspark.sql.DataFrame
        A stream of the view's columns and `_weight`; with several views, of `_view`, a struct of columns for each view
        (NULL in the rows of others) and `_weight`: see `split`.

    Raises
    ------
    PlanError
        A stream, an option or the checkpoint does not fit; the message says what would.
    SqlError
        A view or the schema cannot be read.

    Notes
    -----
    With a sequence, of one key the change with the highest sequence counts, in whatever order, micro-batches and number
    of copies the changes come: one that is late or comes twice changes nothing, and a delete may overtake what it
    deletes. At the same sequence a row counts over its removal (an update is a preimage and a postimage of one
    sequence), and of two different rows the greater one, compared column by column in the order of the table, NULL
    least, by the columns that views read. An insert of a key that is there replaces its row, and the delete of one that
    is not there is remembered: neither is an error. For this every key that was ever removed is remembered, with its
    sequence, as long as the checkpoint lives: with a BIGINT key that takes 16 bytes a key in a compacted log and 45 to
    90 in the arena.

    Changes that cannot be applied are a value that does not fit, NULL in NOT NULL, a second row with a primary key (in
    a table without sequence it is noticed where both rows meet on a shard, or with `check_keys`), and the removal of a
    row that is not there. In quarantine the result always has the form of several views (one query is called `view`)
    with one more struct, `_quarantine`, of table, row (JSON) and reason: see `quarantined`. A row on which a condition
    over its table alone has no value (division by zero) is set aside too; what a view cannot compute further on stops
    the query. To find every bad change, tables then pass a level that knows all their rows. What Spark raises when the
    query stops begins with Freshet's own sentence, and `reason` gives it alone.

    `on_error` may change from run to run: a query that stopped goes on with "quarantine", and back. One that began with
    "stop" lacks the level that knows all rows (unless `sequence` or `check_keys` made it), so it then sets aside what
    it would have stopped at. Where its views read a table in several ways, a removal of what is not there, or a second
    row with a key, first stops it once more, noted in the checkpoint, and is set aside when it is started again
    (`freshet run` does that by itself).

    A checkpoint that is rebuilt goes on from the same place in its sources. Its tables' rows are taken from the old
    state, so a view may read what some view has read before, and of a new column NULL; a table that no view has read is
    read from the beginning of its source. Anything else is refused, and nothing changes then. What the rebuilding
    changes in the answers, of views that are new or have another query, is emitted with the next micro-batch. The old
    checkpoint is kept, with `.before-rebuild` after its name. No query may run over the checkpoint meanwhile.

    Examples
    --------
    >>> ddl = "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, total BIGINT)"
    >>> rows = spark.createDataFrame([(1, "Ann", 30), (2, "Bob", 5)], "id BIGINT, customer STRING, total BIGINT")
    >>> rows.write.json(f"{folder}/orders")
    >>> orders = spark.readStream.schema(rows.schema).json(f"{folder}/orders")
    >>> sql = "SELECT customer, SUM(total) AS total FROM orders GROUP BY customer"
    >>> changes = maintain(spark, sql, {"orders": orders}, schema=ddl, checkpoint=f"{folder}/state")
    >>> writer = changes.writeStream.format("memory").queryName("spent").trigger(availableNow=True)
    >>> query = writer.option("checkpointLocation", f"{folder}/state").start()
    >>> query.awaitTermination()
    >>> sorted(tuple(row) for row in spark.table("spent").collect())
    [('Ann', 30, 1), ('Bob', 5, 1)]
    """
    if on_error not in ("stop", "quarantine"):
        raise PlanError(f'on_error is {on_error!r}; give "stop" or "quarantine"')
    if shards is not None and shards < 1:
        raise PlanError(f"{shards} shards; give 1 or more")
    partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    if checkpoint is not None:
        check_shared(spark, checkpoint)
        complete(spark, checkpoint)
    log_folder = None if checkpoint is None else _folder(spark, checkpoint)
    retained = int(str(spark.conf.get("spark.sql.streaming.minBatchesToRetain")))
    _advise(retained, log_folder is not None)
    _look_at(tables)
    ordered = sequences(tables, sequence)
    measured = sizes is None and heavy is None
    if shards not in (None, partitions):
        logger.warning(
            "freshet: shards: %s, but spark.sql.shuffle.partitions is %s; make them equal, or partitions stay empty",
            shards, partitions,
        )  # fmt: skip
    moved = outgrown(spark, checkpoint, partitions) if rebuild and shards is None and checkpoint is not None else None
    if moved is not None:
        shards, sizes = moved
    given_again = rebuild and sizes is not None
    if checkpoint is not None and (shards or partitions) > 1 and not given_again:
        sizes = chosen_sizes(spark, checkpoint, sizes, tables)
    count = shards or _count(spark, checkpoint, sizes, partitions)
    plans = _planned(views, schema)
    roots = {name: plan.root for name, plan in plans.items()}
    folded, together = remembers(spark, checkpoint), False
    layout = Strategy.CHEAPEST if folded else Strategy.HYPERCUBE
    if measured and checkpoint is not None and sizes and count > 1 and not has_started(spark, checkpoint):
        heavy = measured_heavy(tables, sizes, joined_columns(roots.values()), count)
    job = make_job(roots, count, sizes, list(ordered), on_error == "quarantine", check_keys, folded, layout, heavy)
    check_functions(job)
    tables = with_clock(spark, job, tables, clock)
    if checkpoint is not None:
        given = [name for name, view in _named(views).items() if isinstance(view, Plan)]
        asked = Requested(plans, given, _catalog(schema), tables, ordered, check_keys)
        with codec.calling(_functions(plans, schema)):
            if rebuild and must_rebuild(spark, checkpoint, job, asked):
                rebuild_state(spark, checkpoint, job, asked, sizes or {}, retained)
            job, together = claimed(spark, checkpoint, job, asked)
    show_reason_first()
    logger.info("freshet: %s", explain_job(job, sizes))
    compile_kernels()  # workers on this machine then find them in the cache, instead of all compiling at once
    check_arenas(arena)
    shipped = pack_job(job)
    note(profile, "job", dataflow=dataflow(job))
    blocks = encoded(job, shipped, tables, ordered, profile, log_folder)
    for level in range(job.levels):
        processor = Level(shipped, level, arena, log_folder, retained, profile, together)
        blocks = blocks.groupBy("key").transformWithState(processor, BLOCKS, "append", "none")
    single = not isinstance(views, Mapping) and not job.quarantine
    blocks, decoder = observing(blocks), Decoder(shipped, single)
    changes = decoded(blocks, decoder, functools.partial(result_ddl, job, single))
    remember_blocks(changes, blocks, decoder)
    return changes


def explain(
    views: Views, schema: str | Catalog | None = None, shards: int = 1, sizes: Mapping[str, float] | None = None,
    heavy: Heavy | None = None,
) -> str:  # fmt: skip
    """Describe how views would run: levels, grids and what each table sends.

    Parameters
    ----------
    views, schema, shards, sizes, heavy
        As `maintain` takes them. `sizes(spark, checkpoint)` gives those that a running query was laid out by.

    Returns
    -------
    str
        A text for people.

    Raises
    ------
    SqlError
        A view or the schema cannot be read.

    Examples
    --------
    >>> "orders" in explain("SELECT id FROM orders", "CREATE TABLE orders (id BIGINT PRIMARY KEY)", shards=4)
    True
    """
    return explain_job(compile_job(views, schema, shards, sizes, heavy=heavy), sizes)


def split(changes: DataFrame, view: str) -> DataFrame:
    """Select one view's changes out of several.

    Parameters
    ----------
    changes
        What `maintain` returns for a dict of views.
    view
        The name of one of them.

    Returns
    -------
    pyspark.sql.DataFrame
        The view's columns and `_weight`.

    Examples
    --------
    With `orders`, `sql` and `ddl` as in `maintain`:

    >>> both = maintain(spark, {"spent": sql, "n": "SELECT COUNT(*) AS n FROM orders"}, {"orders": orders}, schema=ddl)
    >>> split(both, "n").columns
    ['n', '_weight']
    """
    return changes.where(functions.col(VIEW) == view).select(f"`{view}`.*", WEIGHT)


def quarantined(changes: DataFrame) -> DataFrame:
    """Select the changes that were set aside.

    Parameters
    ----------
    changes
        What `maintain` returns with ``on_error="quarantine"``.

    Returns
    -------
    pyspark.sql.DataFrame
        Table, row (JSON) and reason of each.

    Examples
    --------
    With `orders`, `sql` and `ddl` as in `maintain`:

    >>> quarantined(maintain(spark, sql, {"orders": orders}, schema=ddl, on_error="quarantine")).columns
    ['table', 'row', 'reason']
    """
    return split(changes, QUARANTINE).drop(WEIGHT)


def compile_job(
    views: Views, schema: str | Catalog | None, shards: int, sizes: Mapping[str, float] | None,
    normalized: Sequence[str] = (), quarantine: bool = False, checked: bool = False,
    layout: Strategy = Strategy.CHEAPEST, heavy: Heavy | None = None,
) -> Job:  # fmt: skip
    plans = {name: plan.root for name, plan in _planned(views, schema).items()}
    return make_job(plans, shards, sizes, normalized, quarantine, checked, layout=layout, heavy=heavy)


def _named(views: Views) -> Mapping[str, str | Plan]:
    named = views if isinstance(views, Mapping) else {"view": views}
    if not named:
        raise PlanError("no views; give a query, or a dict of name to query")
    if QUARANTINE in named:
        raise PlanError(f"{QUARANTINE} is the name of what is set aside; give the view another")
    return named


def _catalog(schema: str | Catalog | None) -> Catalog | None:
    return Catalog.from_ddl(schema) if isinstance(schema, str) else schema


def _functions(plans: Mapping[str, Plan], schema: str | Catalog | None) -> dict[str, Callable[..., Any]]:
    """The functions in Python that views may call, by name in lower case."""
    known = dict(schema.functions) if isinstance(schema, Catalog) else {}
    known |= {f.name.lower(): f for plan in plans.values() for f in codec.functions_in(plan.root)}
    return {name: function.body for name, function in known.items()}


def _planned(views: Views, schema: str | Catalog | None) -> dict[str, Plan]:
    catalog = _catalog(schema)
    plans = {}
    for name, view in _named(views).items():
        if isinstance(view, Plan):
            plans[name] = view
            continue
        if catalog is None:
            raise PlanError("a query needs the schema of its tables; give schema= the CREATE TABLE statements")
        plans[name] = make_plan(view, catalog)
    return {name: Plan(plan.sql, as_bag(plan.root)) for name, plan in plans.items()}


def _count(
    spark: SparkSession, checkpoint: str | None, sizes: Mapping[str, float] | None, partitions: int
) -> int:  # fmt: skip
    """The number of shards where nobody gives it."""
    if checkpoint is not None:
        kept = kept_shards(spark, checkpoint)
        if kept is not None:
            return kept
        if not remembers(spark, checkpoint):
            return partitions
    return shards_for(sizes or {}, partitions)


def _folder(spark: SparkSession, checkpoint: str) -> str | None:
    """The checkpoint as a path on every machine, if it is one: machines share what is not a disk of their own."""
    folder = open_folder(spark, checkpoint)
    return folder.path if isinstance(folder, LocalFolder) else None


def _advise(retained: int, files: bool) -> None:
    """Says what makes a checkpoint larger than it need be."""
    if retained > _VERSIONS and files:
        logger.info(
            "freshet: the checkpoint keeps what changed in the last %s batches, to go back to any of them "
            "(spark.sql.streaming.minBatchesToRetain); set a smaller number to keep less", retained,
        )  # fmt: skip
    elif retained > _VERSIONS:
        logger.warning(
            "freshet: the checkpoint keeps the rows of the last %s batches (spark.sql.streaming.minBatchesToRetain); "
            "give maintain() the query's folder as checkpoint= and it keeps them once, or set a smaller number",
            retained,
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
