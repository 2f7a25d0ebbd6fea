"""A job: the plans of one or more views cut into operators that shards can run, as immutable data.

Operators stand at levels. All operators of one level run in one stateful step of the stream; what they say goes to a
higher level or to the views. Rows reach an operator as a *stream*: some columns of a table, or of another operator's
output, sent to the cells of a grid. A grid has a share for each dimension; a row is hashed on the dimensions it has a
value for and copied along the others. Streams with the same source, level and grid are one stored table in each shard.
A UNION ALL is not an operator: its inputs send to the stream of whoever reads it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from dataclasses import dataclass, replace

from freshet.logical.query import Field, TableSchema
from freshet.plans import codec
from freshet.plans.model import AnyPlan, QueryPlan, inputs, schemas
from freshet.scalar.expression import Expression

SEQUENCE = "_sequence"  # the column that orders the changes of a table


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a grid, as one stream meets it: what its rows are hashed on, nothing where they are copied.
    `heavy`: hashes of values whose rows are hashed on `row` instead, or copied where that is nothing."""

    share: int
    name: str
    hashed: tuple[Expression, ...] = ()
    heavy: tuple[int, ...] = ()
    row: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """`columns` are positions in the source; filters and dimensions read the source's columns as relation 0. A row is
    sent where any of `filters` holds entirely; no filters: every row is."""

    name: str
    sources: tuple[str, ...]  # a table's name in lower case, or operators' names
    level: int
    columns: tuple[int, ...]
    schema: TableSchema  # of the chosen columns
    filters: tuple[tuple[Expression, ...], ...]
    grid: tuple[Dimension, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """A plan whose tables are streams, run by the first `cells` shards. `averages` are pairs of output columns (sum,
    count): see `partials`. One that reads no table is emitted once, with the first transaction. `trunk`: the table of
    which a part of a join has at most a row for each row; `expected`: of a join with parts, the rows that its busiest
    shard is expected to receive on all levels, and by HyperCube on one: see `cuts`."""

    name: str
    level: int
    plan: AnyPlan
    cells: int
    averages: tuple[tuple[int, int], ...] = ()
    trunk: str = ""
    expected: tuple[float, ...] = ()

    @property
    def constant(self) -> bool:
        return next(schemas(self.plan), None) is None


@dataclass(frozen=True, slots=True)
class ViewOutput:
    """The operators whose deltas together are the view's."""

    name: str
    operators: tuple[str, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Normalized:
    """A table whose changes pass the first level, which knows every row. With `gone` they may be upserts or deletes by
    key alone: `stream`, hashed on the primary key, brings them with what they do and when, and they leave as whole-row
    changes; `gone` names the keys that were removed. Otherwise they are whole rows with weights, checked against the
    table so that bad ones are found wherever they are."""

    table: str
    stream: str
    gone: str = ""

    @property
    def ordered(self) -> bool:
        return bool(self.gone)


@dataclass(frozen=True, slots=True)
class Job:
    shards: int
    tables: tuple[TableSchema, ...]
    streams: tuple[Stream, ...]
    operators: tuple[Operator, ...]
    views: tuple[ViewOutput, ...]
    normalized: tuple[Normalized, ...] = ()
    quarantine: bool = False  # bad changes are set aside
    made_as: str = ""  # the fingerprint its state has, where an earlier version wrote the job down in other words

    @property
    def levels(self) -> int:
        return 1 + max(o.level for o in self.operators)

    @property
    def begins(self) -> int | None:
        """The level whose first shard must hear of the first transaction whatever it brings, since there are answers
        over no rows at all: constants, and totals without groups. None: there are not."""
        if any(o.constant or _has_total(o.plan) for o in self.operators):
            return min(o.level for o in self.operators)
        return None

    @property
    def passing(self) -> frozenset[str]:
        """Tables whose changes pass the first level, which knows all their rows."""
        return frozenset(n.table for n in self.normalized)

    def alone(self, stream: Stream) -> bool:
        """Whether a stream is the only one of its table. All copies of a row meet the same rows, so that nobody else
        would judge a change differently."""
        return [s for s in self.streams if stream.sources[0] in s.sources] == [stream]

    def first_stream(self, table: str) -> str:
        """The name of the stream by which a table's rows come first."""
        known = next((n.stream for n in self.normalized if n.table == table), None)
        return known or next(s.name for s in self.streams if s.sources == (table,))

    def to_text(self) -> str:
        """Packed: a function that Spark sends to its workers must stay below a megabyte, or Spark makes a broadcast
        variable of it, which stateful processors cannot read. The plans of some dozens of views are more than that."""
        return base64.b85encode(zlib.compress(codec.to_json(self, indent=None).encode())).decode()

    @staticmethod
    def from_text(text: str) -> Job:
        job = codec.from_json(_unpacked(text))
        assert isinstance(job, Job)
        return job


def _has_total(plan: AnyPlan) -> bool:
    grouping = plan.grouping if isinstance(plan, QueryPlan) else None
    return (grouping is not None and not grouping.keys) or any(_has_total(below) for _, below in inputs(plan))


def fingerprint(job: Job) -> str:
    """Identifies the job to which a state belongs."""
    return job.made_as or _digest(codec.to_json(replace(job, quarantine=False), indent=None))


def restored(text: str, known: str) -> Job | None:
    """A job written down by this version or an earlier one, if it is the one that its state knows by a fingerprint."""
    written = json.loads(_unpacked(text))
    if (written.get("made_as") or _digest(json.dumps({**written, "quarantine": False}, ensure_ascii=False))) != known:
        return None
    job = Job.from_text(text)
    return job if fingerprint(job) == known else replace(job, made_as=known)


def view_names(text: str) -> list[str]:
    """The views of a job that is written down."""
    return [view["name"] for view in json.loads(_unpacked(text))["views"]]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _unpacked(text: str) -> str:
    return zlib.decompress(base64.b85decode(text)).decode()


for _part in (Dimension, Stream, Operator, ViewOutput, Normalized, Job):
    codec.register(_part)
