"""Pack: changes of several views to what a partition has of each, inside mapInArrow.

Law: of each view in the partition there is one row with `appeared`. Its payload is the view's changes in the partition,
added up; or NULL, if the partition has too many. Where they can come only once, the changes are then in rows of their
own (`part`), as many as it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.database.change_type import WEIGHT
from freshet.spark.decode import VIEW, Decoder
from freshet.spark.failure import plainly
from freshet.spark.sink.rows import normal, summed

PACKED = "view STRING, appeared BIGINT, vanished BIGINT, payload BINARY, part BINARY"
_ARROW = pa.schema(
    [
        ("view", pa.string()),
        ("appeared", pa.int64()),
        ("vanished", pa.int64()),
        ("payload", pa.binary()),
        ("part", pa.binary()),
    ]
)


Row = tuple[str, int | None, int | None, bytes | None, bytes | None]


@dataclass(slots=True)
class _ViewPart:
    """Of one view in one partition: the weights that came and went, and the rows that are wanted."""

    schema: pa.Schema | None  # None where none are
    appeared: int = 0
    vanished: int = 0
    rows: list[pa.Table] = field(default_factory=list)

    def add(self, columns: list[pa.Array], weights: pa.Array) -> int:
        """The bytes that the rows take."""
        signed = weights.to_numpy()
        self.appeared += int(np.sum(signed, where=signed > 0))
        self.vanished -= int(np.sum(signed, where=signed < 0))
        if self.schema is None:
            return 0
        self.rows.append(pa.table([*map(normal, columns), weights], self.schema.names).cast(self.schema))
        return int(self.rows[-1].nbytes)

    def taken(self) -> bytes | None:
        """The sum of the rows, which are kept here no longer."""
        if self.schema is None:
            return None
        found = summed(pa.concat_tables([self.schema.empty_table(), *self.rows]))
        self.rows.clear()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(found)
        return bytes(sink.getvalue())


@dataclass(slots=True)
class _Parts:
    """The views of a partition. `schemas` has those whose rows are wanted, in not many more than `share` bytes."""

    schemas: Mapping[str, pa.Schema]
    share: int
    size: int = 0
    views: dict[str, _ViewPart] = field(default_factory=dict)

    def add(self, view: str, columns: list[pa.Array], weights: pa.Array) -> bool:
        """Whether there are too many rows now."""
        if view not in self.views:
            self.views[view] = _ViewPart(self.schemas.get(view))
        self.size += self.views[view].add(columns, weights)
        return self.size > self.share

    def packed(self) -> Iterator[Row]:
        for view, part in self.views.items():
            yield view, part.appeared, part.vanished, part.taken(), None


def _batch(rows: Iterable[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


@dataclass
class Pack:
    """A function for mapInArrow over the rows of views, which can be computed again."""

    schemas: Mapping[str, pa.Schema]
    share: int
    __name__ = "gather"  # as Spark's plans call it

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = _Parts(self.schemas, self.share)
        for batch in batches:
            for view in pc.unique(batch.column(VIEW)).to_pylist():
                own = batch.filter(pc.equal(batch.column(VIEW), view))
                columns = own.column(view).flatten() if view in self.schemas else []
                if parts.add(view, columns, own.column(WEIGHT)):
                    parts.size = 0
                    for part in parts.views.values():
                        part.schema = None
                        part.rows.clear()
        if parts.views:
            yield _batch(parts.packed())


class PackBlocks:
    """A function for mapInArrow over the blocks that rows of views are decoded from."""

    def __init__(self, decoder: Decoder, schemas: Mapping[str, pa.Schema], share: int) -> None:
        self.decoder, self.schemas, self.share = decoder, schemas, share
        self.__name__ = decoder.__name__

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts, large = _Parts(self.schemas, self.share), set[str]()
        with plainly():
            for delta in self.decoder.deltas(batches):
                if parts.add(*delta):
                    parts.size = 0
                    filled = [view for view, part in parts.views.items() if part.rows]
                    large.update(filled)
                    for view in filled:
                        yield _batch([_part(view, parts.views[view])])
            for view in large:
                yield _batch([_part(view, parts.views[view])])
                parts.views[view].schema = None
            if parts.views:
                yield _batch(parts.packed())


def _part(view: str, part: _ViewPart) -> Row:
    return view, None, None, None, part.taken()


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A function for mapInArrow: the rows in payloads and parts, of one view."""
    for batch in batches:
        for name in ("payload", "part"):
            for payload in batch.column(name).drop_null():
                yield from pa.ipc.open_stream(payload.as_py()).read_all().to_batches()
