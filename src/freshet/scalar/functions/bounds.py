"""Limits for the size of texts that functions produce, and for the steps they take.

Law: no cost depends on a value alone. The sizes of the results of REPEAT, LPAD, CONCAT and similar functions are
computed before any result is made; if a function may take more steps than its texts have bytes, as LEVENSHTEIN and
patterns do, the steps are counted. Exceeding a limit is an error, which refuses the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.errors import EvaluationError, TooMuchTextError
from freshet.scalar.column import MOST_TEXT, Column
from freshet.scalar.functions.rows import text_of
from freshet.state.arrays import TEXT, Bools, Int64s, taken

#: The limit for the bytes of one text that a function produces; MOST_TEXT is the limit for all texts of a batch.
LONGEST_TEXT = 1 << 24
#: The steps that a function may take for a batch, and additional steps for each row and each byte of its texts.
MOST_STEPS, STEPS_A_BYTE = 1 << 28, 64


def byte_sizes(a: Column) -> Int64s:
    """The bytes of each text; 0 where it is NULL."""
    text = text_of(a)
    if not len(text):
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(text.buffers()[1], np.int64)[text.offset : text.offset + len(text) + 1]
    sizes = np.diff(offsets)
    return sizes if a.valid is None else np.where(a.valid, sizes, 0)


def check_sizes(function: str, sizes: Int64s, valid: Bools | None, rows: int) -> None:
    """Raises an error if texts of these sizes are too large for this number of rows; a single size is for all rows."""
    if valid is not None:
        sizes = np.where(valid, sizes, 0)
    longest = int(sizes.max()) if sizes.size else 0
    if longest > LONGEST_TEXT:
        row = int(sizes.argmax())
        raise EvaluationError(
            f"{function.upper()} makes a text of {longest:,} bytes; the limit is {LONGEST_TEXT:,}: make it shorter", row
        )
    total = int(sizes.sum()) * (rows if len(sizes) == 1 else 1)
    if total > MOST_TEXT:
        reason = f"{function.upper()} makes {total:,} bytes of text for {rows:,} rows; the limit is {MOST_TEXT:,}"
        raise TooMuchTextError(f"{reason}: make the texts shorter, or apply fewer rows at a time", int(sizes.argmax()))


def most_steps(texts: Sequence[Column], rows: int) -> int:
    """The steps that a function of these texts may take."""
    total = rows
    for a in texts:
        total += int(byte_sizes(a).sum()) * (rows if len(a) == 1 else 1)
    return MOST_STEPS + STEPS_A_BYTE * total


def too_many_steps(function: str, texts: Sequence[Column], rows: int, row: int, remedy: str) -> EvaluationError:
    most = most_steps(texts, rows)
    return EvaluationError(f"{function.upper()} takes more than {most:,} steps for {rows:,} rows; {remedy}", row)


def check_steps(function: str, steps: Any, texts: Sequence[Column], rows: int, remedy: str) -> None:
    """Raises an error if there are too many steps, given as one number for each row or for all."""
    steps = np.broadcast_to(steps, rows).astype(np.float64)
    if steps.sum() > most_steps(texts, rows):
        raise too_many_steps(function, texts, rows, int(steps.argmax()), remedy)


class Texts:
    """A column of texts as kernels read it: addresses of offsets and bytes, and 0 instead of 1 if one text is for all
    rows. It keeps its buffers alive."""

    def __init__(self, a: Column) -> None:
        self.text: pa.LargeStringArray = text_of(a)
        assert self.text.type == TEXT
        _, offsets, data = self.text.buffers()
        self.offsets = 0 if offsets is None else offsets.address + 8 * self.text.offset
        self.data = 0 if data is None else data.address
        self.step = 0 if len(self.text) == 1 else 1

    @property
    def parts(self) -> tuple[int, int, int]:
        return self.offsets, self.data, self.step


def known(valid: Bools | None, rows: int) -> Bools:
    """Which rows are valid, in the form for kernels: empty if all are."""
    return np.zeros(0, np.bool_) if valid is None else taken(np.broadcast_to(valid, rows))


def made_text(sizes: Int64s, data: Any) -> pa.LargeStringArray:
    """Consecutive texts of these numbers of bytes."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(TEXT, len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
