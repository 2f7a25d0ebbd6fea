"""What a rebuilding has changed in the answers of a checkpoint, until the next micro-batch emits it.

The blocks are files next to the checkpoint. The first shard emits them in its first transaction after it was loaded,
which is that of version 2, so that a micro-batch that is run again emits the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

DIFFERENCE = "freshet/difference"  # in a checkpoint
LOADED = 1  # the version of a shard that has been loaded


def pending(checkpoint: str | None) -> Path | None:
    """The folder of the blocks, if the checkpoint was rebuilt and some answers have changed."""
    folder = None if checkpoint is None else Path(checkpoint) / DIFFERENCE
    return folder if folder is not None and folder.is_dir() else None


def pending_blocks(folder: Path) -> Iterator[tuple[int, int, str, bytes]]:
    for file in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches():
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
