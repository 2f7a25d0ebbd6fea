"""What a checkpoint was made by, kept in its folder: another query is refused before it starts, with what differs.

Law: state is only ever continued by the job that made it. The job itself is kept, and a query for the same views of the
same tables goes on with it, also where this Freshet would lay it out otherwise. What is done with bad changes
(`on_error`) is not part of the state: it may change from run to run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from freshet.errors import FreshetError, StateError
from freshet.plans import Plan
from freshet.plans.differences import describe_table, describe_view, named, plans_differ, table_differs, view_differs
from freshet.plans.soundness import is_sound
from freshet.spark.connect import is_remote, streams_read
from freshet.spark.job import Job, fingerprint, restored
from freshet.spark.sink.folder import Folder, LocalFolder, open_folder
from freshet.sql.catalog import Catalog
from freshet.version import __version__

RECORD = "freshet/query.json"
JOB_RECORD = "freshet-job.json"  # of a job file (`job/checkpoint.py`), which says itself where rows come from
FORMAT, TOGETHER = 1, 2  # of what the state store holds: variables of its own, or one value a shard (`level.py`)
_WHERE = ("path", "subscribe", "subscribePattern", "assign", "table")


@dataclass(frozen=True, slots=True)
class Requested:
    """A query as its user asks for it. `given`: views that came with a plan of their own; `ordered`: by table, the
    column that orders its changes; `checked`: whether keys are to be compared wherever they are."""

    plans: Mapping[str, Plan]
    given: Collection[str]
    catalog: Catalog | None
    tables: Mapping[str, DataFrame]
    ordered: Mapping[str, str]
    checked: bool


def claimed(spark: SparkSession, checkpoint: str, job: Job, asked: Requested) -> tuple[Job, bool]:
    """The job to run: the one the checkpoint was made by, or the one asked for, whose checkpoint it is from now on; and
    whether its shards keep one value each. StateError, saying what differs, if they are not for the same."""
    folder = open_folder(spark, checkpoint)
    there, together = folder.names(), isinstance(folder, LocalFolder)
    now = _record(spark, job, asked, JOB_RECORD not in there, TOGETHER if together else FORMAT)
    started = "offsets" in there
    try:
        kept = folder.read(RECORD)
    except FileNotFoundError:
        if not started:  # else it began without a record, and its shards know what they were made by
            folder.create(RECORD, now, private=True)
        return job, together and not started
    if not started:
        folder.remove(RECORD)
        folder.create(RECORD, now, private=True)
        return job, together
    going_on = _continued(kept, now, checkpoint, asked)
    return replace(going_on, quarantine=job.quarantine), json.loads(kept)["format"] == TOGETHER


def must_rebuild(spark: SparkSession, checkpoint: str, job: Job, asked: Requested) -> bool:
    """Whether the checkpoint was made by a query that differs from this one. StateError if it differs in what cannot be
    rebuilt: where rows come from, or what they are."""
    folder = open_folder(spark, checkpoint)
    if "offsets" not in folder.names():
        return False
    try:
        kept = json.loads(folder.read(RECORD))
    except FileNotFoundError:
        raise StateError(f"{checkpoint} has no {RECORD} to tell what it holds; use another checkpoint folder") from None
    now = json.loads(_record(spark, job, asked, JOB_RECORD not in folder.names(), kept["format"]))
    refused = []
    for name in kept["tables"].keys() & now["tables"].keys():
        refused += [f"table {name}: {what}" for what in _not_rebuilt(kept["tables"][name], now["tables"][name])]
    if refused:
        listed = "\n  ".join(refused)
        raise StateError(
            f"the checkpoint {checkpoint} cannot be rebuilt for this query:\n  {listed}\n"
            "put the tables back as they were, or start with another checkpoint folder"
        )
    missing = [t.name for t in job.tables if t.primary_key and t.name.lower() not in Job.from_text(kept["job"]).passing]
    return any(_differing(kept, now, asked)) or (asked.checked and bool(missing))


def _not_rebuilt(kept: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What differs between two descriptions of a table that stored rows cannot follow."""
    yield from table_differs({**kept, "columns": {}}, {**now, "columns": {}})
    for name, type_ in now["columns"].items():
        then = kept["columns"].get(name)
        if then is None and type_.endswith(" NOT NULL"):
            yield f"column {name} is new and NOT NULL, and the rows there are have no value for it"
        elif then not in (None, type_):
            yield f"column {name} was {then}, is {type_}"


def views_changed(text: str, asked: Requested) -> list[str]:
    """The views whose query differs from that in a record, new ones included."""
    kept = json.loads(text)["views"]
    found = []
    for name, plan in asked.plans.items():
        now = describe_view(plan, asked.catalog)
        if name not in kept or any(view_differs(kept[name], now)):
            found.append(name)
    return found


def recorded_job(folder: Folder) -> str | None:
    """The job of a checkpoint whose shards keep one value each."""
    try:
        kept = json.loads(folder.read(RECORD))
        return str(kept["job"]) if kept["format"] == TOGETHER else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def kept_shards(spark: SparkSession, checkpoint: str) -> int | None:
    """The number of shards that a query was begun with there, where it is written down."""
    try:
        return int(json.loads(open_folder(spark, checkpoint).read(RECORD))["shards"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # what cannot be read is refused later
        return None


def remembers(spark: SparkSession, checkpoint: str | None) -> bool:
    """Whether the layout of the query begun there is written down, or will be. Else it must be the one that earlier
    versions chose as well: its shards know it by its fingerprint alone."""
    if checkpoint is None:
        return False
    return not has_started(spark, checkpoint) or kept_shards(spark, checkpoint) is not None


def has_started(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a query has run there."""
    return "offsets" in open_folder(spark, checkpoint).names()


def _record(spark: SparkSession, job: Job, asked: Requested, with_sources: bool, form: int) -> str:
    sources = {name.lower(): _sources(spark, df) for name, df in asked.tables.items()} if with_sources else {}
    tables = {
        t.name.lower(): describe_table(
            t, sequence=asked.ordered.get(t.name.lower()), source=sources.get(t.name.lower())
        )
        for t in job.tables
    }
    described = {
        "format": form,
        "freshet": __version__,
        "shards": job.shards,
        "tables": tables,
        "views": {name: describe_view(plan, asked.catalog) for name, plan in asked.plans.items()},
        "fingerprint": fingerprint(job),
        "job": job.to_text(),
    }
    return json.dumps(described, indent=1, ensure_ascii=False)


def _continued(text: str, now: str, where: str, asked: Requested) -> Job:
    try:
        kept, wanted = json.loads(text), json.loads(now)
        if kept["format"] not in (FORMAT, TOGETHER):
            raise ValueError(f"format {kept['format']}")
        differing = list(_differing(kept, wanted, asked))
        if not differing:
            restored_job = restored(kept["job"], kept["fingerprint"])
            if restored_job is None:
                raise ValueError(f"it is of Freshet {kept['freshet']}, and this is {__version__}")
            job = restored_job
            missing = [t.name for t in job.tables if t.primary_key and t.name.lower() not in job.passing]
            differing = ["check_keys: False then, True now"] if asked.checked and missing else []
    except (ValueError, KeyError, TypeError, FreshetError) as e:
        raise StateError(
            f"{where}/{RECORD} cannot be read ({e}); go on with the Freshet that wrote it, or start with another "
            "checkpoint folder"
        ) from None
    if differing:
        listed = "\n  ".join(differing)
        remedy = "put the query back as it was, give rebuild=True, or start with another checkpoint folder"
        if all(": source was " in d for d in differing):
            remedy = (
                f"read the same source, start with another checkpoint folder, or, if it only moved, remove {RECORD}"
            )
        raise StateError(f"the checkpoint {where} was made by another query:\n  {listed}\n{remedy}")
    return job


def _differing(kept: Mapping[str, Any], now: Mapping[str, Any], asked: Requested) -> Iterator[str]:
    if kept["shards"] != now["shards"]:
        yield f"shards: {kept['shards']} then, {now['shards']} now"
    yield from named("table", kept["tables"], now["tables"], table_differs)
    views = list(named("view", kept["views"], now["views"], view_differs))
    yield from views
    if not views:
        yield from plans_differ(kept["views"], now["views"], asked.given)
    if not all(is_sound(operator.plan) for operator in Job.from_text(kept["job"]).operators):
        yield f"plans: Freshet {kept['freshet']} has planned some views wrongly, and their answers may be wrong"


def _sources(spark: SparkSession, df: DataFrame) -> str:
    """Where a stream comes from, as far as Spark's plan says it."""
    if is_remote(spark):
        return " and ".join(_place(spark, kind, options.get) for kind, options in streams_read(df))
    found = []
    leaves: Any = df._jdf.queryExecution().analyzed().collectLeaves().iterator()
    while leaves.hasNext():
        leaf = leaves.next()
        kind = leaf.getClass().getSimpleName()
        if kind == "StreamingRelation":
            source = leaf.dataSource()
            found.append(_place(spark, source.className(), lambda name, of=source: of.options().get(name)))
        elif kind == "StreamingRelationV2":
            options = leaf.extraOptions()
            found.append(_place(spark, leaf.sourceName(), lambda name, of=options: of.get(name)))
    return " and ".join(found)


def _place(spark: SparkSession, kind: str, option: Any) -> str:
    parts = [kind]
    for name in _WHERE:
        value = option(name)
        if hasattr(value, "isDefined"):  # an option of Scala's
            value = value.get() if value.isDefined() else None
        if value is not None:
            value = open_folder(spark, value).uri if name == "path" else value
            parts.append(re.sub(r"\?.*", "?***", re.sub(r"://[^/@]*@", "://***@", value)))  # never a password
    return " ".join(parts)
