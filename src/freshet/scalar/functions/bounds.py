"""How large a text that a function makes may be, and how many steps it may take.

Law: no cost depends on a value alone. The sizes of what REPEAT, LPAD, CONCAT and their like make are computed before
any of it is made; where a function takes more steps than its texts have bytes, as LEVENSHTEIN and patterns do, the
steps are counted. What goes beyond is refused, and so is the transaction.
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

#: The most bytes of one text that a function makes; MOST_TEXT has those of all that it makes for the rows of a batch.
LONGEST_TEXT = 1 << 24
#: The steps a function may take for a batch, and how many more for each row and each byte of its texts.
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
    """Refuses to make texts of so many bytes for so many rows; one size stands for all rows."""
    if valid is not None:
        sizes = np.where(valid, sizes, 0)
    longest = int(sizes.max()) if sizes.size else 0
    if longest > LONGEST_TEXT:
        row = int(sizes.argmax())
        raise EvaluationError(
            f"{function.upper()} makes a text of {longest:,} bytes; {LONGEST_TEXT:,} are the most: make it shorter", row
        )
    total = int(sizes.sum()) * (rows if len(sizes) == 1 else 1)
    if total > MOST_TEXT:
        reason = f"{function.upper()} makes {total:,} bytes of text for {rows:,} rows; {MOST_TEXT:,} are the most"
        raise TooMuchTextError(f"{reason}: make the texts shorter, or apply fewer rows at a time", int(sizes.argmax()))


def most_steps(texts: Sequence[Column], rows: int) -> int:
    """The steps a function of these texts may take."""
    found = rows
    for a in texts:
        found += int(byte_sizes(a).sum()) * (rows if len(a) == 1 else 1)
    return MOST_STEPS + STEPS_A_BYTE * found


def too_many_steps(function: str, texts: Sequence[Column], rows: int, row: int, remedy: str) -> EvaluationError:
    most = most_steps(texts, rows)
    return EvaluationError(f"{function.upper()} takes more than {most:,} steps for {rows:,} rows; {remedy}", row)


def check_steps(function: str, steps: Any, texts: Sequence[Column], rows: int, remedy: str) -> None:
    """Refuses to take so many steps, one number for each row or for all."""
    steps = np.broadcast_to(steps, rows).astype(np.float64)
    if steps.sum() > most_steps(texts, rows):
        raise too_many_steps(function, texts, rows, int(steps.argmax()), remedy)


class Texts:
    """A column of texts as kernels read it: addresses of offsets and bytes, and 0 instead of 1 where one text stands
    for all rows. It keeps what it points to."""

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
    """Which rows are valid, as kernels take it: none where all are."""
    return np.zeros(0, np.bool_) if valid is None else taken(np.broadcast_to(valid, rows))


def made_text(sizes: Int64s, data: Any) -> pa.LargeStringArray:
    """Texts of so many bytes, one after the other."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(TEXT, len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
