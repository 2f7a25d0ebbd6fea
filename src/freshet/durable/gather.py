"""Many records at once: complete ones are found and checked, and their rows of one table are gathered.

Law: a log is 64-bit words (log.py has the head of a record, record.py its payload), so kernels walk it without the
interpreter, and a log of a million transactions of one row costs about what one transaction of a million rows does. The
checksum is the one zlib computes, eight bytes at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.durable.record import ROWS, TRANSACTION
from freshet.state.kernel import inlined, kernel

HEAD = 4  # words before a payload: mark and checksum, kind and rows, version, bytes of the payload
KIND = 0xFF  # the bits of a kind; those above say how many words before the record were not synced (log.py)
_PART = 5  # words before a table's rows: its number, rows, lanes, texts, bytes of text
_LOW = 0xFFFFFFFF
_BYTES = np.uint64(255)


def _tables() -> Any:
    first = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint64(0xEDB88320), first >> 1)
    tables = [first]
    for _ in range(7):
        tables.append((tables[-1] >> np.uint64(8)) ^ first[(tables[-1] & _BYTES).astype(np.int64)])
    return np.stack(tables)


CRC = _tables()


@inlined
def checksum(words: Any, begin: Any, end: Any, seed: Any, crc: Any) -> Any:
    """zlib.crc32 of the words' bytes, continued from `seed`."""
    register = np.uint64(seed) ^ np.uint64(0xFFFFFFFF)
    for i in range(begin, end):
        x = np.uint64(words[i]) ^ register
        register = (
            crc[7, x & _BYTES]
            ^ crc[6, (x >> np.uint64(8)) & _BYTES]
            ^ crc[5, (x >> np.uint64(16)) & _BYTES]
            ^ crc[4, (x >> np.uint64(24)) & _BYTES]
            ^ crc[3, (x >> np.uint64(32)) & _BYTES]
            ^ crc[2, (x >> np.uint64(40)) & _BYTES]
            ^ crc[1, (x >> np.uint64(48)) & _BYTES]
            ^ crc[0, x >> np.uint64(56)]
        )
    return np.int64(register ^ np.uint64(0xFFFFFFFF))


@kernel("UniTuple(i8, 3)(i8[::1], i8, i8, i8, u8[:,::1], i8, i8, i8[::1])")
def find_records(
    words: Any, used: Any, mark: Any, seed: Any, crc: Any, most: Any, until: Any, payloads: Any
) -> Any:  # fmt: skip
    """Finds where the payloads of complete records with rows begin, from the first word on, up to about `most` rows and
    to the version `until`. Returns how many there are, the number of their words, and how many are transactions."""
    n, at, rows, transactions = 0, 0, 0, 0
    while n < payloads.size and rows < most and at + HEAD <= used:
        kind, length = words[at + 1] & KIND, words[at + 3]
        if (words[at] & _LOW) != mark or (kind != TRANSACTION and kind != ROWS) or words[at + 2] > until:
            break
        if length < 0 or length % 8 != 0 or length // 8 > used - at - HEAD:
            break
        end = at + HEAD + length // 8
        if checksum(words, at + 1, end, seed, crc) != (words[at] >> 32) & _LOW:
            break
        payloads[n] = at + HEAD
        n += 1
        rows += (words[at + 1] >> 32) & _LOW
        transactions += kind == TRANSACTION
        at = end
    return n, at, transactions


@kernel("UniTuple(i8, 3)(i8[::1], i8[::1], i8, i8)")
def measure_rows(words: Any, payloads: Any, table: Any, width: Any) -> Any:
    """How many rows, texts and bytes of text of a table the payloads hold; -1 if they do not match the table."""
    rows, texts, size = 0, 0, 0
    for i in range(payloads.size):
        at = payloads[i]
        left = words[at]
        at += 1
        for _ in range(left):
            n, lanes, some, length = words[at + 1], words[at + 2], words[at + 3], words[at + 4]
            if words[at] == table:
                if lanes != width:
                    return -1, 0, 0
                rows += n
                texts += some
                size += length
            at += _PART + n + n * lanes + some + (length + 7) // 8
    return rows, texts, size


@kernel("void(i8[::1], u1[::1], i8[::1], i8, i8[::1], i8[:,::1], i8[::1], i8[::1], u1[::1])")
def gather_rows(
    words: Any, data: Any, payloads: Any, table: Any, text_lanes: Any, rows: Any, weights: Any, ends: Any, text: Any
) -> None:
    """Those rows, with texts numbered consecutively, and the texts. `data`: the bytes of `words`."""
    row, texts, size, width = 0, 0, 0, rows.shape[1]
    for i in range(payloads.size):
        at = payloads[i]
        left = words[at]
        at += 1
        for _ in range(left):
            mine, n, lanes, some, length = (
                words[at] == table,
                words[at + 1],
                words[at + 2],
                words[at + 3],
                words[at + 4],
            )
            at += _PART
            if mine:
                for j in range(n):
                    weights[row + j] = words[at + j]
                    for k in range(width):
                        rows[row + j, k] = words[at + n + j * width + k]
                    for k in range(text_lanes.size):
                        rows[row + j, text_lanes[k]] += texts
                start = at + n + n * width
                for j in range(some):
                    ends[texts + j] = size + words[start + j]
                for j in range(length):
                    text[size + j] = data[8 * (start + some) + j]
                row += n
                texts += some
                size += length
            at += n + n * lanes + some + (length + 7) // 8
