"""Changes that one part of the state refuses and others would take, set aside when their micro-batch is run again.

A query that began with on_error="stop" has no level that knows all rows, and views may read a table in several ways:
then its shards judge a change each for itself, and one that refuses it cannot tell the others within the micro-batch.
It notes the change next to the checkpoint, under the number of the batch, and fails. Started again, the query runs the
same batch, and the encoder, which sees every change once, sets aside what is noted for all of them.

Shards see the columns they read, so changes of the batch that are equal in these are set aside together.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark import TaskContext

from freshet.errors import ChangeError
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate_filter
from freshet.scalar.lanes import pack
from freshet.scalar.types import BIGINT
from freshet.spark.block import Signed, from_block, to_block
from freshet.spark.job import Job, Stream
from freshet.state.arena import Arena
from freshet.state.arrays import Int64s
from freshet.state.strings import StringPool
from freshet.state.tuples import Tuples

AGAIN = "it is noted, and set aside when the query is started again"
NEVER = (
    "it cannot be set aside, since the query began with on_error='stop' and without checkpoint=: correct the row, or "
    "begin a new checkpoint with on_error='quarantine'"
)


class DisputedError(ChangeError):
    """Changes of a stream that its shard refuses."""

    def __init__(self, table: str, stream: str, rows: Signed, reasons: Sequence[str], shown: str) -> None:
        self.stream, self.rows, self.reasons = stream, rows, reasons
        super().__init__(f"{reasons[0]} (the row is {shown})", table)

    def noted(self, checkpoint: str | None) -> ChangeError:
        """Writes them down for the next time; what to raise now."""
        batch = current_batch()
        if checkpoint is None or batch is None:
            return ChangeError(f"{self.reason}; {NEVER}", self.table)
        text = json.dumps(
            {
                "stream": self.stream,
                "rows": base64.b64encode(to_block(self.rows)).decode(),
                "reasons": list(self.reasons),
            }
        )
        folder = _folder(checkpoint, batch)
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{uuid.uuid4().hex}"
        draft.write_text(text)
        os.rename(draft, folder / f"{uuid.uuid4().hex}.json")
        return ChangeError(f"{self.reason}; {AGAIN}", self.table)


@dataclass(frozen=True, slots=True)
class Note:
    stream: Stream
    rows: Signed
    reasons: Sequence[str]

    def first(self, columns: Mapping[int, Column], weights: Int64s) -> tuple[int, str] | None:
        """The first of a table's changes that was refused, and why."""
        stream, n = self.stream, len(weights)
        pool = StringPool(Arena().scope("text"))
        refused = pack([*self.rows.columns, Column(BIGINT, self.rows.weights)], pool, len(self.rows))
        given = pack([*(columns[c] for c in stream.columns), Column(BIGINT, weights)], pool, n)
        known = Tuples(Arena().scope("rows"), refused.shape[1])
        slots = known.add(refused)
        found = known.find(given)
        if stream.filters:  # others never came to the shard
            kept = [evaluate_filter(f, lambda c: columns[c.column], n) for f in stream.filters]
            found = np.where(np.logical_or.reduce(kept), found, -1)
        at = np.flatnonzero(found >= 0)
        if not len(at):
            return None
        return int(at[0]), self.reasons[int(np.flatnonzero(slots == found[at[0]])[0])]


def notes(checkpoint: str | None, job: Job, table: str) -> list[Note]:
    """What the batch is to set aside of a table's changes."""
    batch = current_batch()
    if checkpoint is None or batch is None:
        return []
    found = []
    for file in sorted(_folder(checkpoint, batch).glob("*.json")):
        kept = json.loads(file.read_text())
        stream = next((s for s in job.streams if s.name == kept["stream"] and table in s.sources), None)
        if stream is not None:
            rows = from_block(base64.b64decode(kept["rows"]), [f.type for f in stream.schema.fields])
            found.append(Note(stream, rows, kept["reasons"]))
    return found


def current_batch() -> str | None:
    """The number of the micro-batch that this worker has a part in."""
    task = TaskContext.get()
    return None if task is None else task.getLocalProperty("streaming.sql.batchId")


def _folder(checkpoint: str, batch: str) -> Path:
    return Path(checkpoint) / "freshet" / "refused" / batch
