"""Everything that can be wrong with a job file, found without running it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from freshet.errors import FreshetError
from freshet.job.file import QUARANTINE, JobFile, JobSink, read_job
from freshet.job.options import ENVELOPE, KEY, SINKS, SOURCES, split_key
from freshet.job.packages import missing
from freshet.plans import plan as make_plan
from freshet.sql.catalog import Catalog

_RATE = ("timestamp", "value")


@dataclass(frozen=True, slots=True)
class Mistake:
    message: str
    line: int | None = None
    column: int | None = None


def find_mistakes(text: str, folder: Path, on_spark: bool = True) -> tuple[JobFile, list[Mistake]]:
    """The job and its mistakes; `on_spark`: including what Spark lacks to run it."""
    job, wrong = read_job(text, folder)
    mistakes = [Mistake(str(e), e.line, e.column) for e in wrong]
    columns: dict[str, list[str]] = {}
    for name, sql in job.views.items():
        try:
            columns[name] = [f.name for f in make_plan(sql, job.catalog).root.fields]
        except FreshetError as e:
            mistakes.append(Mistake(f"view {name}: {e}"))
    mistakes += map(Mistake, (*_sources(job), *_sinks(job, columns)))
    if on_spark and importlib.util.find_spec("pyspark") is None:
        mistakes.append(Mistake("PySpark is not installed, and jobs run on it; pip install 'freshet[spark]'"))
    elif on_spark:
        mistakes += map(Mistake, missing(job))
    return job, [replace(m, message=job.secrets.redacted(m.message)) for m in mistakes]


def _sources(job: JobFile) -> Iterator[str]:
    for source in job.sources.values():
        name, place = source.schema.name, source.place
        path = job.path(place)
        if SOURCES[place.format].files and path is not None and "://" not in path and not any(c in path for c in "*?["):
            if not job.folder.joinpath(path).exists():
                yield f"table {name}: {path} is not there; make the folder, or correct the path"
        if source.sequence is not None and not source.schema.primary_key:
            yield f"table {name}: sequence orders changes by primary key, and it has none; declare one"
        if source.sequence is not None and not _is_type(source.sequence[1]):
            yield f"table {name}: sequence has the type {source.sequence[1]}, an unknown type; write 'lsn BIGINT'"
        if place.format == "rate":
            wrong = [f.name for f in source.schema.fields if f.name.lower() not in _RATE]
            if wrong:
                yield f"table {name}: rate has no column {wrong[0]}; it has {' and '.join(_RATE)}"


def _is_type(name: str) -> bool:
    try:
        return bool(Catalog.from_ddl(f"CREATE TABLE t (c {name})").tables)
    except FreshetError:
        return False


def _sinks(job: JobFile, columns: Mapping[str, list[str]]) -> Iterator[str]:
    taken: dict[str, str] = {}
    read = {job.path(s.place): s.schema.name for s in job.sources.values() if s.place.get("path")}
    for sink in job.sinks:
        path = job.path(sink.place)
        if path is not None and "://" not in path and Path(path).is_file():
            yield f"sink {sink.name}: {path} is a file; give a folder"
        if path in read:
            yield f"sink {sink.name} writes to {path}, which table {read[path]} reads; give it a folder of its own"
        if path is not None and path in taken:
            yield f"sinks {taken[path]} and {sink.name} both write to {path}; give each its own"
        taken[path or sink.name] = sink.name
        yield from _envelope(sink, columns.get(sink.view))


def _envelope(sink: JobSink, columns: list[str] | None) -> Iterator[str]:
    place, form = sink.place, sink.place.get(ENVELOPE)
    if form is None:
        if place.get(KEY) is not None and ENVELOPE in SINKS[place.format].checks:
            yield f"sink {sink.name} has a key, which only envelopes have; add envelope 'upsert', or leave key away"
    elif ENVELOPE not in SINKS[place.format].checks:
        yield f"sink {sink.name}: {place.format} writes no envelopes; leave envelope away"
    elif sink.view == QUARANTINE:
        yield f"sink {sink.name}: changes that were set aside have no key; leave envelope away"
    elif not split_key(place.get(KEY)):
        yield f"sink {sink.name}: envelope '{form}' needs the view's key; add key 'column, ...'"
    elif columns is not None and (unknown := [k for k in split_key(place.get(KEY)) if k not in columns]):
        yield f"sink {sink.name}: view {sink.view} has no column {unknown[0]} for the key; it has {', '.join(columns)}"
    elif form == "debezium" and place.format == "csv":
        yield f"sink {sink.name}: csv cannot hold the rows before and after; use json, or envelope 'upsert'"
