"""One micro-batch of a view's changes, as the copies of its answer take it.

Laws. The rows are consolidated: each row occurs once, with a weight that is not 0. `content` is a hash that is linear
in the weights (the sum of hash(row) · weight), so it does not depend on order, on partitions or on how a weight is
spread over several rows: two runs of one batch have the same content, and a batch whose number was seen with other
content is not a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import AtomicType, StructType

from freshet.database.change_type import WEIGHT
from freshet.errors import ChangeError, PlanError, StateError

HASH = "_hash"
RESERVED = (WEIGHT, HASH, "_row", "_op", "_held")

#: How many batches back a copy remembers what it was given.
REMEMBERED = 100
NOTHING = "0"


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of micro-batch `number` of the streaming query `query`."""

    number: int
    query: str
    rows: DataFrame  # _hash, the view's columns, _weight
    columns: tuple[str, ...]
    count: int
    removed: int  # how many of the rows have a negative weight
    weight: int  # the sum of the weights
    content: str


class Copy(Protocol):
    """A place that holds the answer."""

    def prepare(self, schema: StructType) -> None:
        """Makes the target ready for a view of these columns, or refuses it; changes nothing that is already there."""

    def apply(self, batch: Batch) -> None:
        """Moves the copy on by one batch, whole or not at all; a batch it already has changes nothing."""


@dataclass(slots=True)
class Applied:
    """What a copy knows of the batches it has: the query they came from, and the content of the last ones."""

    query: str | None = None
    contents: dict[int, str] = field(default_factory=lambda: {-1: NOTHING})

    def has(self, batch: Batch, target: str) -> bool:
        """Whether the batch is in already. Refuses a batch that cannot follow what is there."""
        if self.query not in (None, batch.query):
            raise StateError(
                f"{target} was filled by streaming query {self.query}, and this is query {batch.query}, which starts"
                " from its own checkpoint; use the checkpoint the target was filled from, or a new target"
            )
        if batch.number > max(self.contents):
            return False
        if batch.number < min(self.contents):
            raise StateError(
                f"batch {batch.number} comes again, but {target} holds batches up to {max(self.contents)} and remembers"
                f" them from {min(self.contents)} on only; use a newer checkpoint, or a new target and checkpoint"
            )
        if self.contents.get(batch.number, NOTHING) != batch.content:
            raise StateError(
                f"batch {batch.number} comes again with other rows than {target} was given before: the checkpoint or"
                " the sources were changed; use the newest checkpoint, or a new target and checkpoint"
            )
        return True

    def followed_by(self, batch: Batch) -> Applied:
        kept = {n: c for n, c in self.contents.items() if n > batch.number - REMEMBERED}
        return Applied(batch.query, {**kept, batch.number: batch.content})


def check_columns(schema: StructType) -> None:
    """Refuses columns that no copy could hold."""
    names = [f.name.lower() for f in schema]
    for f in schema:
        if f.name.lower() in RESERVED:
            raise PlanError(f"the view has a column {f.name}, a name the copy needs itself; give it another alias")
        if names.count(f.name.lower()) > 1:
            raise PlanError(f"the view has two columns named {f.name}; give them different aliases")
        if not isinstance(f.dataType, AtomicType):
            kind = f.dataType.simpleString()
            raise PlanError(f"column {f.name} is a {kind}, which a copy cannot compare; select its parts instead")
    if not names:
        raise PlanError("the changes have no columns but the weight; select at least one column of the view")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def columns_of(names: tuple[str, ...]) -> list[Column]:
    return [sf.col(quoted(n)) for n in names]


def consolidated(rows: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """Each row once, with the sum of its weights where that is not 0. Takes rows with or without their hash."""
    if HASH not in rows.columns:
        values = columns_of(columns)
        # xxhash64 passes over NULL, so that (NULL, 1) and (1, NULL) would be one without their shape.
        shape = [v.isNull() for v in values]
        rows = rows.select(sf.xxhash64(*values, *shape).alias(HASH), *values, sf.col(WEIGHT))
    summed = rows.groupBy(HASH, *columns_of(columns)).agg(sf.sum(WEIGHT).alias(WEIGHT))
    return summed.where(sf.col(WEIGHT) != 0)


def with_batch(changes: DataFrame, number: int, query: str, use: Callable[[Batch], None]) -> None:
    """Hands the consolidated batch over. The changes are computed once, to the end: the stream's own state needs it."""
    columns = tuple(c for c in changes.columns if c != WEIGHT)
    rows = consolidated(changes, columns).persist()
    try:
        weight = sf.col(WEIGHT)
        # As decimals, because in ANSI mode 64-bit integers do not wrap around.
        content = sf.sum(sf.col(HASH).cast("decimal(19,0)") * weight.cast("decimal(19,0)"))
        one = rows.agg(
            sf.count(sf.lit(1)).alias("count"),
            sf.count(sf.when(weight < 0, 1)).alias("removed"),
            sf.coalesce(sf.sum(weight), sf.lit(0)).alias("weight"),
            sf.coalesce(content.cast("string"), sf.lit(NOTHING)).alias("content"),
        ).collect()[0]
        use(Batch(number, query, rows, columns, one["count"], one["removed"], one["weight"], one["content"]))
    finally:
        rows.unpersist()


def shown(row: Mapping[str, Any]) -> str:
    """A row for people."""
    return "(" + ", ".join(f"{k}={'NULL' if v is None else v}" for k, v in row.items()) + ")"


def removed_too_often(target: str, row: Mapping[str, Any], number: int, taken: int, held: int) -> ChangeError:
    copies = f"{taken} of the row" if taken > 1 else "the row"
    return ChangeError(
        f"batch {number} takes away {copies} {shown(row)}, of which {target} holds {held}: changes and target do not"
        " belong together; fill a new target from the beginning of the changes"
    )
