"""Runs of a materialized folder, read and written by this process: sums of few rows, and lookups of few hashes.

Laws. A run is sorted by hash, in groups of few rows whose least and greatest hash the file states; so the rows of a
hash are in the groups whose range includes it, and are found without reading the others. What is too much for one
process is not read: the answer is then None, and Spark does it (`spread.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from freshet.database.change_type import WEIGHT
from freshet.spark.sink.batch import HASH
from freshet.spark.sink.folder import Folder
from freshet.spark.sink.rows import summed
from freshet.spark.sink.spread import GROUP_ROWS, RUNS
from freshet.state.arrays import Int64s

MERGED = 64 << 20  # bytes, uncompressed
LOOKED_UP = 4_000_000  # hashes


def held(folder: Folder, runs: Iterable[str], hashes: Int64s) -> Int64s | None:
    """The weight that the runs have of each hash; they are sorted, each once."""
    found = np.zeros(len(hashes), np.int64)
    with _opened(folder, runs) as files:
        chosen = [(file, _with_hashes(file.metadata, hashes)) for file in files]
        if sum(file.metadata.row_group(g).num_rows for file, groups in chosen for g in groups) > LOOKED_UP:
            return None
        for file, groups in chosen:
            rows = file.read_row_groups(groups, columns=[HASH, WEIGHT])
            there = rows[HASH].to_numpy()
            place = np.minimum(np.searchsorted(hashes, there), len(hashes) - 1)
            same = hashes[place] == there
            np.add.at(found, place[same], rows[WEIGHT].to_numpy()[same])
    return found


def _with_hashes(metadata: pq.FileMetaData, hashes: Int64s) -> list[int]:
    """The groups that may have some of these hashes."""
    column = metadata.schema.names.index(HASH)
    bounds = [metadata.row_group(g).column(column).statistics for g in range(metadata.num_row_groups)]
    return [
        g
        for g, bound in enumerate(bounds)
        if bound is None
        or not bound.has_min_max
        or np.searchsorted(hashes, bound.min) < np.searchsorted(hashes, bound.max, side="right")
    ]


def added(folder: Folder, rows: pa.Table, runs: Iterable[str]) -> pa.Table | None:
    """The sum of the rows and the runs."""
    with _opened(folder, runs) as files:
        sizes = (file.metadata.row_group(g).total_byte_size for file in files for g in range(file.num_row_groups))
        if rows.nbytes + sum(sizes) > MERGED:
            return None
        return summed(
            pa.concat_tables([rows, *(file.read().select(rows.column_names).cast(rows.schema) for file in files)])
        )


def write_run(folder: Folder, rows: pa.Table, name: str) -> None:
    """Writes a run of consolidated rows."""
    written = pa.BufferOutputStream()
    repeating = [c for c in rows.column_names if c != HASH]
    pq.write_table(rows.sort_by(HASH), written, row_group_size=GROUP_ROWS, use_dictionary=repeating, store_schema=False)
    folder.write(f"{RUNS}/{name}/part-00000.parquet", written.getvalue())


@contextmanager
def _opened(folder: Folder, runs: Iterable[str]) -> Iterator[Sequence[pq.ParquetFile]]:
    files: list[pq.ParquetFile] = []
    try:
        for run in runs:
            for name in folder.names(f"{RUNS}/{run}"):
                if name.endswith(".parquet") and not name.startswith(("_", ".")):
                    source = folder.open(f"{RUNS}/{run}/{name}")
                    # Spark writes times as 96 bits, which hold nanoseconds of few centuries.
                    files.append(pq.ParquetFile(source, coerce_int96_timestamp_unit="us"))
        yield files
    finally:
        for file in files:
            file.close(force=True)
