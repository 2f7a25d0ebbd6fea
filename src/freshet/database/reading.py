"""Reading the whole answer of a view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from freshet.budget import Memory, hold, look, unbudgeted
from freshet.engine.maintained import Maintained
from freshet.interrupts import Deferred, deliver
from freshet.logical.query import Field
from freshet.scalar.arrow import to_batches
from freshet.scalar.column import Column

BATCH = 65_536  # rows read at a time


def unchanging() -> None:
    """The default check: the state does not change."""


def whole(
    operator: Maintained, fields: Sequence[Field], memory: Memory, check: Callable[[], None] = unchanging
) -> pa.Table:
    """The answer of an operator; `check` is called before each part."""
    schema = as_schema(fields)
    with memory.temporary():
        batches: list[pa.RecordBatch] = []
        parts = operator.batches(BATCH)
        while True:
            with unbudgeted():
                deliver()
            with Deferred():
                check()
                look()
                made = following(parts, schema)
            if made is None:
                return pa.Table.from_batches(batches, schema)
            for batch in made:
                hold(batch.nbytes)
                batches.append(batch)


def following(parts: Iterator[list[Column]], schema: pa.Schema) -> list[pa.RecordBatch] | None:
    """The next part of an answer; None at its end."""
    columns = next(parts, None)
    return None if columns is None else [b for b in to_batches(columns, schema) if b.num_rows]


def as_schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([pa.field(f.name, f.type.to_arrow(), f.nullable) for f in fields])
