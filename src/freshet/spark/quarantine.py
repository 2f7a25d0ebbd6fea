"""Sets aside changes that cannot be applied, with the reason, so that the rest of their transaction is applied.

A change is judged in exactly one place: its values where it is encoded, and its consistency with the rows of its table
on the one shard of the first level to which its key (its whole row, in a table without a key) is hashed. Bad changes
never reach higher levels. Changes of different keys are independent, so the bad ones are found by bisection.

The changes set aside are part of the same stream as the answers, so Spark's checkpoint covers both.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.changes import refusal
from freshet.engine.table import MissingRowError, RepeatedKeyError, Table
from freshet.logical.query import TableSchema
from freshet.scalar.arrow import from_arrow, to_arrow
from freshet.scalar.types import STRING
from freshet.spark.block import Signed, from_block, to_block
from freshet.state.arena import Arena
from freshet.state.arrays import Int64s
from freshet.state.tuples import Tuples

QUARANTINE = "_quarantine"
COLUMNS = ("table", "row", "reason")

Refused = tuple[str, str, str]  # the table, the row as JSON, the reason


def to_json(row: dict[str, Any]) -> str:
    return json.dumps(row, default=_written, ensure_ascii=False)


def _written(value: Any) -> str:
    """Values that JSON cannot represent; bytes in base 64, as Spark writes them."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def refused_block(refused: Sequence[Refused]) -> bytes:
    columns = [from_arrow(pa.array(c, pa.string()), STRING) for c in zip(*refused, strict=True)]
    return to_block(Signed(columns, np.ones(len(refused), np.int64)))


def refused_rows(payload: bytes) -> list[pa.Array]:
    return [to_arrow(c).cast(pa.string()) for c in from_block(payload, [STRING] * len(COLUMNS)).columns]


def find_bad(table: Table, schema: TableSchema, lanes: Int64s, weights: Int64s) -> dict[int, str]:
    """The signed rows that the table must refuse, with the reasons; it accepts all others together."""
    bad: dict[int, str] = {}
    width = table.tuples.key_lanes
    keys = np.zeros(len(lanes), np.int32)
    if width:
        keys = Tuples(Arena().scope("keys"), width).add(np.ascontiguousarray(lanes[:, :width]))
    order = np.argsort(keys, kind="stable")
    waiting = [order]
    while waiting:
        rows = waiting.pop()
        own = np.ascontiguousarray(lanes[rows])
        try:
            table.resolve(own, weights[rows])
        except MissingRowError as e:
            starts = np.flatnonzero(keys[rows][1:] != keys[rows][:-1]) + 1
            if len(starts):
                middle = int(starts[len(starts) // 2])
                waiting += [rows[:middle], rows[middle:]]
                continue
            # Equal rows were added up; the one with the largest wrong weight is refused, the last of several.
            sign = 1 if isinstance(e, RepeatedKeyError) else -1
            pull = np.where((own == own[e.row]).all(axis=1), weights[rows] * sign, 0)
            worst = len(pull) - 1 - int(np.argmax(pull[::-1]))
            bad[int(rows[worst])] = refusal(table, schema, own, e).reason
            waiting.append(np.delete(rows, worst))
    return bad
