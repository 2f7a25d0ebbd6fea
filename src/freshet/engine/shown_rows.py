"""Rows of an answer as columns: each as often as its weight says, and in several parts if they have much text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from freshet.engine.table import Table
from freshet.errors import TooMuchTextError
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate
from freshet.scalar.expression import Expression
from freshet.state.arrays import Int64s
from freshet.state.rows import repeated
from freshet.state.tuples import Slots


def stored_rows(
    table: Table, outputs: Sequence[Expression], slots: Slots, weights: Int64s, rows: int
) -> Iterator[list[Column]]:
    """The outputs of tuples of a table, column by column from where they are stored, `rows` at a time."""
    read = table.reader(slots)
    try:
        columns = [evaluate(o, read, len(slots)) for o in outputs]
    except TooMuchTextError:
        if len(slots) == 1:
            raise
        half = len(slots) // 2
        yield from stored_rows(table, outputs, slots[:half], weights[:half], rows)
        yield from stored_rows(table, outputs, slots[half:], weights[half:], rows)
        return
    yield from weighted_rows(columns, weights, rows)


def weighted_rows(columns: list[Column], weights: Int64s, rows: int) -> Iterator[list[Column]]:
    """Each row as often as its weight says."""
    if (weights == 1).all():
        yield columns
        return
    for copies in repeated(weights, rows):
        yield from _taken(columns, copies)


def _taken(columns: Sequence[Column], rows: Int64s) -> Iterator[list[Column]]:
    """The given rows."""
    try:
        yield [c.take(rows) for c in columns]
    except TooMuchTextError:
        if len(rows) == 1:
            raise
        for part in np.array_split(rows, 2):
            yield from _taken(columns, part)
