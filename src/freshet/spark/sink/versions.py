"""The answer as Parquet files in a folder, in versions that appear whole.

    _versions/0000000042.json    what version 42 is made of
    runs/0000000042-…/*.parquet  rows, their weights and hashes: what changed in one batch, or in several, merged

Laws. The answer of a version is the sum of its runs: a row's weight is the sum of its weights in them. A batch adds one
run and one version file; the version file, created last and whole, is the commit. Files are never changed. They are
removed when no version needs them but those more than `keep` versions back.

The runs are merged so that each, but for the last three, is longer than all after it together: there are O(log n) of
them, and a row is rewritten O(log n) times, so the cost of a batch is amortized over the changes and does not depend on
the size of the answer. Rows that a batch takes away are looked up in the runs by hash.

This process writes runs of few rows itself, and has Spark write others: both are read alike.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from freshet.database.change_type import WEIGHT
from freshet.errors import StateError
from freshet.spark.sink import spread
from freshet.spark.sink.batch import HASH, Applied, Batch, removed_too_often
from freshet.spark.sink.folder import Folder, open_folder
from freshet.spark.sink.runs import added, held, write_run
from freshet.spark.sink.spread import RUNS, columns_of, consolidated

VERSIONS = "_versions"
CHECKPOINT = "_checkpoint"
FORMAT = 1
FANOUT = 4

logger = logging.getLogger("freshet.spark")


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    schema: StructType
    applied: Applied
    rows: int = 0  # of the answer, repeated rows counted as often as they occur
    runs: Mapping[str, int] = field(default_factory=dict)  # folder to rows in it, oldest first
    retired: Mapping[str, int] = field(default_factory=dict)  # folder to the version that no longer needed it

    def to_json(self) -> str:
        stored = {
            "format": FORMAT,
            "version": self.number,
            "rows": self.rows,
            "runs": self.runs,
            "retired": self.retired,
            "query": self.applied.query,
            "batches": self.applied.contents,
            "columns": self.schema.jsonValue(),
        }
        return json.dumps(stored, indent=1)

    @staticmethod
    def from_json(text: str, where: str) -> Version:
        try:
            stored = json.loads(text)
            known = stored["format"]
        except (ValueError, TypeError, KeyError) as error:
            raise StateError(f"{where} is not a version file of a materialized view; remove the target") from error
        if known != FORMAT:
            raise StateError(
                f"{where} has format {known}; this version of Freshet reads format {FORMAT}: use a newer one"
            )
        return Version(
            stored["version"],
            StructType.fromJson(stored["columns"]),
            Applied(stored["query"], {int(n): c for n, c in stored["batches"].items()}),
            stored["rows"],
            stored["runs"],
            stored["retired"],
        )


def read_materialized(spark: SparkSession, target: str) -> DataFrame:
    """Read the answer in the newest version at a target.

    The DataFrame stays with that version; its files are there until the query has gone on by `keep_versions` batches.

    Parameters
    ----------
    spark
        The session.
    target
        The folder that `materialize` keeps.

    Returns
    -------
    pyspark.sql.DataFrame
        The view's columns, duplicates as repeated rows.

    Raises
    ------
    StateError
        The folder holds no materialized view.

    Examples
    --------
    With the folder of `materialize`:

    >>> sorted(tuple(row) for row in read_materialized(spark, f"{folder}/copy").collect())
    [('Ann', 30), ('Bob', 5)]
    """
    folder = open_folder(spark, target)
    version = newest(folder)
    if version is None:
        raise StateError(f"{target} holds no materialized view; start one with materialize(changes, {target!r})")
    columns = version.schema.names
    rows = spread.stored(spark, folder, version.schema, version.runs)
    if len(version.runs) > 1:
        rows = consolidated(rows, columns)
    weight = sf.col(WEIGHT)
    wrong = sf.raise_error(sf.lit(f"{target} holds a row with a negative weight; fill a new target"))
    copies = sf.when(weight < 0, wrong.cast("int")).otherwise(weight.cast("int"))
    repeated = rows.select(*columns_of(columns), sf.explode(sf.array_repeat(sf.lit(0), copies)).alias(WEIGHT))
    return repeated.drop(WEIGHT)


def newest(folder: Folder) -> Version | None:
    while True:
        numbers = _numbers(folder)
        if not numbers:
            return None
        path = _path(max(numbers))
        try:
            return Version.from_json(folder.read(path), f"{folder.uri}/{path}")
        except FileNotFoundError:  # removed since it was listed: the writer is many versions ahead
            continue


class VersionedCopy:
    """Keeps the folder. One query writes to it at a time; of two, the slower fails."""

    def __init__(self, spark: SparkSession, target: str, keep: int) -> None:
        self.target, self.keep = target, keep
        self.folder = open_folder(spark, target)

    def prepare(self, schema: StructType) -> None:
        version = newest(self.folder)
        if version is None:
            if set(self.folder.names()) - {CHECKPOINT, VERSIONS}:
                raise StateError(
                    f"{self.target} is not empty and was not made by materialize; give a new or an empty folder"
                )
            self.folder.create(_path(0), Version(0, schema, Applied()).to_json())
        elif _types(version.schema) != _types(schema):
            raise StateError(
                f"{self.target} holds the columns {_listed(version.schema)}, and the changes have {_listed(schema)};"
                " select the target's columns, or give a new target"
            )

    def apply(self, batch: Batch) -> None:
        version = newest(self.folder)
        if version is None:
            raise StateError(f"{self.target} was removed while it was being filled; start again with a new checkpoint")
        if version.applied.has(batch, self.target) or not batch.count:
            return
        if batch.removed:
            self._check(batch, version)
        self._commit(self._advanced(batch, version))

    def _check(self, batch: Batch, version: Version) -> None:
        """Refuses a batch that takes away rows the answer does not hold. By hashes: a row of the answer with the same
        64-bit hash could hide one, never accuse one."""
        if isinstance(batch.rows, pa.Table):
            going = batch.rows.filter(pc.less(batch.rows[WEIGHT], 0))
            hashes, place = np.unique(going[HASH].to_numpy(), return_inverse=True)
            known = held(self.folder, version.runs, hashes)
            if known is not None:
                short = np.flatnonzero(known[place] + going[WEIGHT].to_numpy() < 0)[:1]
                for at, row in zip(short, going.take(short).to_pylist(), strict=True):
                    shown = {c: row[c] for c in batch.columns}
                    raise removed_too_often(self.target, shown, batch.number, -row[WEIGHT], int(known[place[at]]))
                return
        found = spread.missing(self.folder, batch, version.runs)
        if found is not None:
            row, taken, there = found
            raise removed_too_often(self.target, row, batch.number, taken, there)

    def _advanced(self, batch: Batch, version: Version) -> Version:
        """The next version, with its run written; nothing points to it yet."""
        number = version.number + 1
        names = list(version.runs)
        merged = names[len(names) - merges(list(version.runs.values()), batch.count) :]
        name = f"{number:010}-{uuid.uuid4().hex[:8]}"
        written = self._write(batch, {m: version.runs[m] for m in merged}, name)
        runs = {n: r for n, r in version.runs.items() if n not in merged}
        if written:
            runs[name] = written
        retired = {n: at for n, at in version.retired.items() if at > number - self.keep}
        return Version(
            number,
            version.schema,
            version.applied.followed_by(batch),
            version.rows + batch.weight,
            runs,
            {**retired, **dict.fromkeys(merged, number)},
        )

    def _write(self, batch: Batch, older: Mapping[str, int], name: str) -> int:
        """Writes the sum of the batch and of older runs; the number of its rows."""
        rows = added(self.folder, batch.rows, older) if isinstance(batch.rows, pa.Table) else None
        if rows is None:
            return spread.write_run(self.folder, batch, older, name)
        if rows.num_rows:
            write_run(self.folder, rows, name)
        return int(rows.num_rows)

    def _commit(self, version: Version) -> None:
        if not self.folder.create(_path(version.number), version.to_json()):
            raise StateError(
                f"another query made version {version.number} of {self.target} meanwhile; stop one of the two"
            )
        try:
            self._clean(version)
        except Exception:  # the batch is in; what could not be removed now is removed with the next one
            logger.warning("freshet: old files of %s could not be removed", self.target, exc_info=True)

    def _clean(self, version: Version) -> None:
        needed = {*version.runs, *version.retired}
        for name in self.folder.names(RUNS):
            if name not in needed:
                self.folder.remove(f"{RUNS}/{name}")
        for number in _numbers(self.folder):
            if number <= version.number - self.keep:
                self.folder.remove(_path(number))


def merges(sizes: Sequence[int], added: int) -> int:
    """How many of the last runs are merged with a new one of so many rows."""
    for i in range(len(sizes) + 2 - FANOUT):
        if sizes[i] <= sum(sizes[i + 1 :]) + added:
            return len(sizes) - i
    return 0


def _types(schema: StructType) -> list[tuple[str, Any]]:
    return [(f.name, f.dataType) for f in schema]


def _listed(schema: StructType) -> str:
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema)


def _path(number: int) -> str:
    return f"{VERSIONS}/{number:010}.json"


def _numbers(folder: Folder) -> list[int]:
    found = (re.fullmatch(r"(\d+)\.json", name) for name in folder.names(VERSIONS))
    return [int(m[1]) for m in found if m]
