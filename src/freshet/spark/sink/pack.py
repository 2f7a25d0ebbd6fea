"""Pack: changes of several views to what a partition has of each, inside mapInArrow.

Law: the rows of a view are its changes in the partition, added up; or there are none, if the partition has too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from freshet.database.change_type import WEIGHT
from freshet.spark.decode import VIEW
from freshet.spark.sink.batch import HASH
from freshet.spark.sink.rows import normal, summed

PACKED = "view STRING, appeared BIGINT, vanished BIGINT, payload BINARY"
_ARROW = pa.schema(
    [("view", pa.string()), ("appeared", pa.int64()), ("vanished", pa.int64()), ("payload", pa.binary())]
)


@dataclass(slots=True)
class _ViewPart:
    """Of one view in one partition: the weights that came and went, and the rows while they are few."""

    appeared: int = 0
    vanished: int = 0
    rows: list[pa.Table] | None = None


@dataclass
class Pack:
    """A function for mapInArrow: the parts of views that are in a partition."""

    schemas: Mapping[str, pa.Schema]
    share: int
    __name__ = "gather"  # as Spark's plans call it

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: dict[str, _ViewPart] = {}
        for batch in batches:
            for view in pc.unique(batch.column(VIEW)).to_pylist():
                part = parts.setdefault(view, _ViewPart(rows=[] if view in self.schemas else None))
                own = pa.table(batch.filter(pc.equal(batch.column(VIEW), view)))
                weights = own[WEIGHT].to_numpy()
                part.appeared += int(weights[weights > 0].sum())
                part.vanished -= int(weights[weights < 0].sum())
                if part.rows is not None:
                    part.rows.append(_flat(own, view, self.schemas[view]))
            if sum(rows.nbytes for part in parts.values() for rows in part.rows or ()) > self.share:
                for part in parts.values():
                    part.rows = None
        columns = {
            "view": [*parts],
            "appeared": [part.appeared for part in parts.values()],
            "vanished": [part.vanished for part in parts.values()],
            "payload": [_payload(part.rows) for part in parts.values()],
        }
        yield from pa.table(columns, _ARROW).to_batches()


def _flat(rows: pa.Table, view: str, schema: pa.Schema) -> pa.Table:
    """The rows of one view among those of several."""
    struct = rows[view].combine_chunks()
    values = [normal(c) for c in struct.flatten()]
    return pa.table([rows[HASH], *values, rows[WEIGHT]], schema.names).cast(schema)


def _payload(rows: list[pa.Table] | None) -> bytes | None:
    if rows is None:
        return None
    found = summed(pa.concat_tables(rows))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(found)
    return bytes(sink.getvalue())
