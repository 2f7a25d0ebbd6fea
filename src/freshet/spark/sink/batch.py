"""One micro-batch of a view's changes, as the copies of its answer take it.

Laws. The rows are consolidated: each row occurs once, with a weight that is not 0. `content` is a hash that is linear
in the weights (the sum of hash(row) · weight), so it does not depend on order, on partitions or on how a weight is
spread over several rows: two runs of one batch have the same content, and a batch whose number was seen with other
content is not a replay.

A batch of few rows is an Arrow table in this process, any other a DataFrame. Both have the columns `_hash`, those of
the view, and `_weight`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import AtomicType, LongType, StructField, StructType

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
    rows: DataFrame | pa.Table
    schema: StructType  # the view's columns
    spark: SparkSession
    count: int
    removed: int  # how many of the rows have a negative weight
    weight: int  # the sum of the weights
    content: str

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def frame(self) -> DataFrame:
        """The rows, for Spark."""
        if isinstance(self.rows, pa.Table):
            return self.spark.createDataFrame(self.rows, stored_schema(self.schema))
        return self.rows


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


def stored_schema(schema: StructType) -> StructType:
    """The columns of a view of these as batches and runs have them."""
    nullable = [StructField(f.name, f.dataType) for f in schema]
    return StructType([StructField(HASH, LongType()), *nullable, StructField(WEIGHT, LongType())])


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


def shown(row: Mapping[str, Any]) -> str:
    """A row for people."""
    return "(" + ", ".join(f"{k}={'NULL' if v is None else v}" for k, v in row.items()) + ")"


def removed_too_often(target: str, row: Mapping[str, Any], number: int, taken: int, held: int) -> ChangeError:
    copies = f"{taken} of the row" if taken > 1 else "the row"
    return ChangeError(
        f"batch {number} takes away {copies} {shown(row)}, of which {target} holds {held}: changes and target do not"
        " belong together; fill a new target from the beginning of the changes"
    )
