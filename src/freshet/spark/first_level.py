"""The level below all others that knows a table's rows, where changes must be judged by them; streams of the clock."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from freshet.errors import PlanError, UnsupportedError
from freshet.logical.query import CLOCK, Field, TableSchema, watermark_of
from freshet.scalar.expression import ColumnRef, walk
from freshet.scalar.types import BIGINT
from freshet.spark.job import SEQUENCE, Dimension, Job, Normalized, Stream


def with_first_level(job: Job, tables: Sequence[TableSchema], ordered: Collection[str]) -> Job:
    """The job with a level below all others that keeps the tables' rows by primary key, or by all they hold."""
    streams = [replace(s, level=s.level + 1) for s in job.streams]
    found = []
    for table in tables:
        name = table.name.lower()
        if name in ordered and not table.primary_key:
            raise PlanError(
                f"table {table.name} has no primary key, by which changes in sequence are distinguished; declare one"
            )
        if name in ordered and table.lateness is not None:
            remedy = "leave one of them away: changes in sequence may come however late"
            raise UnsupportedError(f"table {table.name} with lateness and a sequence is not supported; {remedy}")
        columns = tuple(sorted({*read_of(job.streams, name), *table.primary_key}))
        key = tuple(
            ColumnRef(table.fields[c].type, 0, c, table.fields[c].name, table.fields[c].nullable)
            for c in table.primary_key or columns
        )
        grid = (Dimension(job.shards, "key", key),) if job.shards > 1 and key else ()
        stream, schema, gone = f"{name}/key", projected(table, f"{name}/key", columns), ""
        if name in ordered:
            gone, when = f"{name}/gone", Field(SEQUENCE, BIGINT, False)
            keys = projected(replace(table, retention=None), gone, table.primary_key)
            keys = replace(keys, fields=(*keys.fields, when))
            streams.append(Stream(gone, (f"keys gone from {name}",), 0, table.primary_key, keys, (), grid))
            schema = replace(schema, fields=(*schema.fields, when))
        streams.append(Stream(stream, (f"key of {name}",), 0, columns, schema, (), grid))
        found.append(Normalized(name, stream, gone))
    operators = tuple(replace(o, level=o.level + 1) for o in job.operators)
    known = {t.name.lower(): t for t in job.tables}
    streams += clocks(streams, job.shards, "key", {**known, **{f"key of {name}": t for name, t in known.items()}})
    return replace(job, streams=tuple(streams), operators=operators, normalized=tuple(found))


def clocks(streams: Sequence[Stream], shards: int, name: str, tables: Mapping[str, TableSchema]) -> Iterator[Stream]:
    """A stream of the clock for each level that lacks it and has rows that expire, and one of a table's watermark for
    each that has rows that may be late; `tables` by what streams call them as their source."""
    wanted = {(s.level, CLOCK.name): CLOCK for s in streams if s.schema.retention is not None}
    for s in (s for s in streams if s.schema.lateness is not None):
        mark = watermark_of(tables[s.sources[0]])
        wanted[s.level, mark.name] = mark
    there = {(s.level, s.sources[0]) for s in streams}
    for level, source in sorted(wanted.keys() - there):
        own = f"{source}/{name}{level}"
        yield Stream(own, (source,), level, (0,), replace(wanted[level, source], name=own), (), everywhere(shards))


def everywhere(shards: int) -> tuple[Dimension, ...]:
    return (Dimension(shards, "copied"),) if shards > 1 else ()


def read_of(streams: Sequence[Stream], table: str) -> set[int]:
    """Positions of the columns of a table that its streams, their filters and their grids read."""
    found: set[int] = set()
    for s in (s for s in streams if s.sources == (table,)):
        read = [e for f in s.filters for e in f] + [e for d in s.grid for e in (*d.hashed, *d.row)]
        found |= {*s.columns, *(c.column for e in read for c in walk(e) if isinstance(c, ColumnRef))}
    return found


def projected(schema: TableSchema, name: str, columns: tuple[int, ...]) -> TableSchema:
    place = {c: i for i, c in enumerate(columns)}
    key = tuple(place[c] for c in schema.primary_key)
    kept, late = schema.retention, schema.lateness
    kept = None if kept is None else replace(kept, column=place[kept.column])
    late = None if late is None else replace(late, column=place[late.column])
    return TableSchema(name, tuple(schema.fields[c] for c in columns), key, retention=kept, lateness=late)
