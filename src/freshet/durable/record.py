"""The contents of the records of a log.

Rows of a table are written as the packed lanes that the table stores (scalar/lanes), each with its weight, which is
negative for removed copies. A text lane holds the index of its text among the texts of the same record, so a record can
be read without any other. Signed rows add up: the records of many transactions can be combined into one change to a
table, in which rows that were inserted and deleted again cancel out. This makes replay fast.

A payload is 64-bit words: the number of tables, then for each table its number in the catalog, rows, lanes, texts and
bytes of text; the weights; the lanes; the end of each text; the texts, padded to whole words.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from freshet.engine.table import RowChange, Table
from freshet.state.arrays import BYTES, Int64s
from freshet.state.tuples import Slots

TRANSACTION, CATALOG, ROWS, SNAPSHOT = 1, 2, 3, 4

_WORD = 8
_HEAD = struct.Struct("<5q")
_FEW = 64  # words of rows whose texts are written one by one; of more rows, equal texts are written once


def number_of(table: Table) -> int:
    return int(table.scope.prefix.removeprefix("table"))


def signed(table: Table, change: RowChange) -> tuple[Int64s, Int64s]:
    """The effect of a change on its table, as signed rows; called before the change is applied."""
    if not len(change.removed) and not len(change.changed):
        weights = np.ones(len(change.added), np.int64) if table.weights is None else change.weights
        return change.added, weights
    stored = table.tuples.lanes.data
    rows = np.concatenate([stored[change.removed], stored[change.changed], change.added])
    if table.weights is None:
        weights = np.ones(len(rows), np.int64)
        weights[: len(change.removed)] = -1
        return rows, weights
    before = table.weights.data
    moved = change.changed_to - before[change.changed]
    return rows, np.concatenate([-before[change.removed], moved, change.weights])


def stored(table: Table, slots: Slots) -> tuple[Int64s, Int64s]:
    """The current rows of the table."""
    weights = np.ones(len(slots), np.int64) if table.weights is None else table.weights.data[slots]
    return table.tuples.lanes.data[slots], weights


def rows_payload(parts: Iterable[tuple[Table, Int64s, Int64s]]) -> bytes:
    """The payload for signed rows of several tables."""
    chunks: list[bytes] = []
    tables = 0
    for table, rows, weights in parts:
        tables += 1
        if not table.pooled_lanes:
            words, ends, text = rows.tobytes(), b"", b""
        elif rows.size <= _FEW:
            words, ends, text = _with_few_texts(rows, table)
        else:
            words, ends, text = _with_texts(rows, table)
        head = _HEAD.pack(number_of(table), len(rows), rows.shape[1], len(ends) // _WORD, len(text))
        chunks += (head, weights.tobytes(), words, ends, text, bytes(-len(text) % _WORD))
    return b"".join((tables.to_bytes(_WORD, "little"), *chunks))


def _with_few_texts(rows: Int64s, table: Table) -> tuple[bytes, bytes, bytes]:
    """The same as `_with_texts`, without the fixed cost of array operations, which small transactions would notice."""
    words: list[int] = rows.ravel().tolist()
    texts: list[bytes] = []
    for row in range(0, len(words), rows.shape[1]):
        for at in (row + lane for lane in table.pooled_lanes):
            texts.append(table.encoded(words[at]))
            words[at] = len(texts) - 1
    ends = struct.pack(f"<{len(texts)}q", *accumulate(map(len, texts)))
    return struct.pack(f"<{len(words)}q", *words), ends, b"".join(texts)


def _with_texts(rows: Int64s, table: Table) -> tuple[bytes, bytes, bytes]:
    """The rows with the indexes of their texts, the end of each text, and the texts. Plain texts are not compared, but
    short ones are equal if their lanes are."""
    lanes = table.pooled_lanes
    given, places = np.unique(rows[:, lanes].ravel(), return_inverse=True)
    rows = rows.copy()
    rows[:, lanes] = places.reshape(len(rows), len(lanes))
    plain = int(np.searchsorted(given, 0))  # their lanes are negative
    parts = [*(() if table.heap is None else (table.heap.text(given[:plain], BYTES),))]
    parts.append(table.pool.text(given[plain:], kind=BYTES))
    ends, size, chunks = [], 0, []
    for texts in parts:
        _, offsets, data = texts.buffers()
        own = np.frombuffer(offsets, np.int64, len(texts) + 1)[1:]
        ends.append((own + size).tobytes())
        if len(own):
            chunks.append(data[: int(own[-1])].to_pybytes())
            size += int(own[-1])
    return rows.tobytes(), b"".join(ends), b"".join(chunks)


def json_payload(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False).encode()
    return text + b" " * (-len(text) % _WORD)


def json_of(payload: memoryview) -> Any:
    return json.loads(bytes(payload))
