"""One shard of one level: the stored tables its streams bring, and the operators over them.

The rows of its streams are all a shard needs to be made again: applying the sum of what it was sent, in any order,
leads to the same answers. That is what its log holds and what `contents` gives back in compact form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from freshet.database.changes import null_column, resolve_rows
from freshet.engine.core import Core
from freshet.engine.maintained import Maintained
from freshet.engine.operators import maintain
from freshet.engine.query import Select
from freshet.engine.table import RowChange, Table
from freshet.errors import ChangeError, EvaluationError
from freshet.logical.query import CLOCK, watermark_of
from freshet.plans.model import AnyPlan, QueryPlan, inputs, schemas
from freshet.scalar.column import Column
from freshet.scalar.lanes import pack, unpack
from freshet.spark.block import Signed, joined
from freshet.spark.dispatch import first_copies
from freshet.spark.job import Job, Operator, Stream
from freshet.spark.normalize import Keyed
from freshet.spark.quarantine import find_bad
from freshet.state.arena import Arena
from freshet.state.arrays import Bools
from freshet.state.enumeration import consolidate
from freshet.state.kernel_cache import compile_kernels
from freshet.state.rows import Rows, consolidated

CHUNK = 262_144  # rows of a block in a compacted log


class Shard:
    def __init__(self, job: Job, level: int, number: int, arena: Arena, only: str | None = None) -> None:
        """`only`: the one operator wanted, to read its answer."""
        compile_kernels()
        self.core = Core(arena)
        self.pool = self.core.pool
        operators = [o for o in job.operators if o.level == level and number < o.cells and only in (None, o.name)]
        self.constants = [o for o in operators if o.constant]
        read = {table.name for o in operators for table in schemas(o.plan)}
        if level == 0 and only is None:
            read |= {name for n in job.normalized for name in (n.stream, n.gone)}
        self.clock = next((s.name for s in job.streams if s.level == level and s.sources == (CLOCK.name,)), None)
        if only is not None and self.clock not in read:
            self.clock = None
        known = {watermark_of(t).name: t.name.lower() for t in job.tables if t.lateness is not None}
        marks = {s.name: known[s.sources[0]] for s in job.streams if s.level == level and s.sources[0] in known}
        self.marks = {table: name for name, table in marks.items() if only is None or name in read}
        read |= {*self.marks.values(), *([] if self.clock is None else [self.clock])}
        self.streams: dict[str, Stream] = {s.name: s for s in job.streams if s.level == level and s.name in read}
        self.normalized = {n.stream: n for n in job.normalized if n.stream in self.streams}
        self.tables: dict[str, Table] = {
            s.name: self.core.table(f"table{i}", s.schema) for i, s in enumerate(self.streams.values())
        }
        self.core.tables.update({name.lower(): table for name, table in self.tables.items()})
        self.keyed = {
            n.stream: Keyed(n, self.tables[n.stream], self.tables[n.gone])
            for n in self.normalized.values()
            if n.ordered
        }
        # Where changes of a table are judged, by stream; copies of a row are judged alike, and one of them reports.
        tables = {t.name.lower() for t in job.tables if t != CLOCK} - job.passing
        self.judged = {name: s.sources[0] for name, s in self.streams.items() if s.sources[0] in tables}
        self.disputed = {name for name in self.judged if not job.alone(self.streams[name])}
        self.judged |= {n.stream: n.table for n in self.normalized.values()}
        late = [t.name.lower() for t in job.tables if t.lateness is not None]
        self.counted = {job.first_stream(name) for name in late}  # where their late rows are counted
        self.number = number
        self.operators = [o for o in operators if not o.constant]
        for i, o in enumerate(self.operators):
            self.core.operators[o.name] = self.core.attach(f"view{i}", o.plan)
            _touch(self.core.operators[o.name])

    def apply(self, changes: Mapping[str, Signed]) -> dict[str, Rows]:
        """One transaction; every operator's delta. A refusal comes before the first change; an expression without a
        value comes later, and then the operators are stale: the shard's maker throws it away and has the log."""
        resolved = {name.lower(): self._resolve(name, rows) for name, rows in changes.items() if len(rows)}
        try:
            return self.core.apply(resolved)
        except EvaluationError as e:
            raise ChangeError(
                f"a view has no answer after it: {e.reason}; correct the rows, or guard the expression"
            ) from e

    def _resolve(self, name: str, rows: Signed) -> RowChange:
        table, stream = self.tables[name], self.streams[name]
        lanes = pack([rows.columns[i] for i in table.order], self.pool, len(rows))
        schema = replace(stream.schema, name=", ".join(stream.sources))
        try:
            return resolve_rows(table, schema, lanes, rows.weights)
        except ChangeError as e:  # which of a shard's rows it is says nothing to anybody
            raise ChangeError(e.reason, e.table) from None

    def check(self, name: str, rows: Signed) -> dict[int, str]:
        """The signed rows of a stream that its table must refuse, and why."""
        table, stream = self.tables[name], self.streams[name]
        lanes = pack([rows.columns[i] for i in table.order], self.pool, len(rows))
        return find_bad(table, stream.schema, lanes, rows.weights)

    def reports(self, name: str, rows: Signed) -> Bools:
        """Which of these rows are refused here, where other shards have copies of them."""
        stream = self.streams[name]
        place = {c: i for i, c in enumerate(stream.columns)}
        return first_copies(stream.grid, self.number, lambda c: rows.columns[place[c.column]], len(rows))

    def completed(self, name: str, rows: Signed, by_key: Bools) -> tuple[Signed, bool]:
        """Signed rows with those that say no more than their key made the rows that are there; whether there were such.
        What they say beyond it must be so: else they stay as they are, and are refused."""
        table = self.tables[name]
        if not by_key.any():
            return rows, False
        lanes = pack([rows.columns[i] for i in table.order], self.pool, len(rows))
        slots = table.tuples.find(lanes)
        at = np.flatnonzero(by_key & (slots >= 0))
        stored = table.tuples.lanes.data[slots[at]]
        same, kept = np.ones(len(at), np.bool_), unpack(stored, table.types, self.pool)
        for column, field in enumerate(table.fields):
            first, _, _ = table.lane(column)
            part = slice(first, first + field.type.lanes)
            equal = (lanes[at][:, part] == stored[:, part]).all(axis=1)
            same &= (equal & _valid(kept[table.place[column]])) | ~_valid(rows.columns[column])[at]  # NULL says nothing
        lanes[at[same]] = stored[same]
        columns = unpack(lanes, table.types, self.pool)
        return Signed([columns[table.place[i]] for i in range(len(table.fields))], rows.weights), True

    def load(self, name: str, parts: Iterator[Signed]) -> int:
        """Takes in everything a log holds for one stream: only the sum counts. Returns how many rows were read."""
        table = self.tables[name]
        found, weights = [], []
        for rows in parts:
            found.append(pack([rows.columns[i] for i in table.order], self.pool, len(rows)))
            weights.append(rows.weights)
        if not found:
            return 0
        lanes, signed = np.concatenate(found), np.concatenate(weights)
        read = len(signed)
        if len(found) > 1 or table.weights is not None or (signed != 1).any():
            chosen = np.empty(read, np.int64)
            chosen = chosen[: consolidate(lanes, signed, chosen)]
            lanes, signed = lanes[chosen], signed[chosen]
        if (signed < 0).any():
            raise ChangeError("the log removes a row it never added; the checkpoint is damaged: restore it", name)
        table.reserve(len(signed))
        with self.core.without_deltas():
            for start in range(0, len(signed), CHUNK):
                part = slice(start, start + CHUNK)
                change = RowChange(np.empty(0, np.int32), np.ascontiguousarray(lanes[part]), signed[part])
                self.core.enter(table, change)
        return read

    def loaded(self) -> None:
        """Ends a load: what changed was emitted long ago."""
        with self.core.without_deltas():
            self.core.finish()

    def close(self) -> None:
        self.core.close()

    def sweep(self) -> None:
        """Frees text nobody holds any more."""
        if self.pool.wants_sweep():
            self.core.sweep()

    def live_rows(self) -> int:
        return self.core.live_rows()

    def trees(self) -> dict[str, list[list[tuple[str, int, int]]]]:
        """Of each operator's join trees, inner ones first, every node's alias, tuples and alive tuples."""
        return {o.name: list(_trees(o.plan, self.core.operators[o.name])) for o in self.operators}

    def work(self) -> int:
        """Counters changed since the shard was made."""
        return sum(kept.work().counters for kept in self.core.operators.values())

    def contents(self) -> Iterator[tuple[str, Signed]]:
        """The rows of every stream, some at a time."""
        for name, table in self.tables.items():
            slots = table.tuples.slots()
            for start in range(0, len(slots), CHUNK):
                part = slots[start : start + CHUNK]
                weights = np.ones(len(part), np.int64) if table.weights is None else table.weights.data[part]
                yield name, Signed(table.columns(part), weights)

    def answer(self, operator: Operator) -> Maintained:
        """What holds an operator's answer; one that is constant is made for the purpose."""
        known = self.core.operators.get(operator.name)
        if known is not None:
            return known
        kept = maintain(Arena().scope("constant"), operator.plan, {}, self.pool)
        kept.load([])
        return kept

    def constant(self, operator: Operator) -> Rows:
        """All rows of a constant operator."""
        kept = self.answer(operator)
        return consolidated(list(kept.packed()), kept.width)

    def emitted(self, operator: Operator, rows: Rows) -> Signed:
        """An operator's delta as columns."""
        types = [f.type for f in operator.plan.fields]
        emitted = Signed(unpack(rows.lanes, types, self.pool), rows.weights)
        return _with_zeros(emitted, operator) if operator.averages else emitted


def _valid(column: Column) -> Bools:
    return np.ones(len(column), np.bool_) if column.valid is None else column.valid


def _touch(kept: Maintained) -> None:
    """A total over no rows is an answer, to be emitted by the first transaction."""
    if isinstance(kept, Select) and kept.aggregate is not None:
        kept.touched = True
    for below in kept.below:
        _touch(below)


def _trees(plan: AnyPlan, kept: Maintained) -> Iterator[list[tuple[str, int, int]]]:
    for (_, inner), below in zip(inputs(plan), kept.reads or kept.below, strict=False):
        yield from _trees(inner, below)
    held = kept.statistics()
    if isinstance(plan, QueryPlan) and held:
        names = (plan.relations[node.relation].alias for node in plan.nodes)
        yield [(name, tuples, alive) for name, (tuples, alive) in zip(names, held, strict=True)]


def _with_zeros(rows: Signed, operator: Operator) -> Signed:
    """Partial averages of n values: in addition to their sum, n - 1 rows of value 0 (see `partials`)."""
    assert isinstance(operator.plan, QueryPlan) and operator.plan.grouping is not None
    keys = len(operator.plan.grouping.keys)
    parts = [rows]
    for total, count in operator.averages:
        copies = rows.columns[count].data - 1
        at = np.flatnonzero(copies > 0)
        if len(at):
            columns = [c.take(at) if i < keys else null_column(c.type, len(at)) for i, c in enumerate(rows.columns)]
            columns[total] = Column(rows.columns[total].type, np.zeros(len(at), np.int64))
            parts.append(Signed(columns, rows.weights[at] * copies[at]))
    return joined(parts, [c.type for c in rows.columns])
