"""Reads small numbers of rows of plain Python values as lanes, without a detour through Arrow.

Law: rows are read here exactly as `intake` and `changes` would read them, and everything that is not plain is left to
them: other types, missing or unknown columns, subclasses, values out of range, `_change_type`. So no row is refused
here, and the number of rows does not affect how they are read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.change_type import WEIGHT
from freshet.engine.table import Table
from freshet.logical.query import TableSchema
from freshet.scalar.types import INTEGER_RANGE, Type
from freshet.state import wide
from freshet.state.arrays import TEXT, Int64s
from freshet.state.arrow_rows import MOST_GIVEN

MOST_ROWS = 8  # beyond these, Arrow is as fast
_MOST_TEXT = 4096  # characters; longer ones are checked elsewhere

_EPOCH = dt.date(1970, 1, 1).toordinal()

#: The lanes of a value; None if it is not plain.
Reader = Callable[[Any], tuple[int, ...] | None]


class PlainRows:
    """How the rows of one table are read."""

    def __init__(self, table: Table, schema: TableSchema) -> None:
        self.table = table
        self.names = [f.name for f in schema.fields]
        readers = [_reader(f.type) for f in schema.fields]
        self.known = None not in readers
        self.fields = [(*table.lane(i), reader) for i, reader in enumerate(readers) if reader is not None]

    def read(self, rows: Sequence[Any]) -> tuple[Int64s, Int64s] | None:
        """Rows of lanes, and weights; None if a row is not plain."""
        if not self.known or not 0 < len(rows) <= MOST_ROWS:
            return None
        made: list[list[int]] = []
        weights: list[int] = []
        texts: list[tuple[int, int, str]] = []
        for row in rows:
            given = self._values(row) if type(row) is type(rows[0]) else None
            lanes = None if given is None else self._lanes(given[0], texts, len(made))
            if given is None or lanes is None:
                return None
            made.append(lanes)
            weights.append(given[1])
        packed = np.array(made, np.int64)
        if texts:
            try:
                ids = self.table.pool.intern(pa.array([text for _, _, text in texts], TEXT))
            except (pa.ArrowException, UnicodeError):
                return None
            for (number, lane, _), id in zip(texts, ids.tolist(), strict=True):
                packed[number, lane] = id
        return packed, np.array(weights, np.int64)

    def _values(self, row: Any) -> tuple[Sequence[Any], int] | None:
        """The values of a row in the order of the columns, and its weight."""
        if type(row) is tuple:
            return (row, 1) if len(row) == len(self.names) else None
        if type(row) is not dict:
            return None
        weight: Any = 1
        if len(row) != len(self.names):
            weight = row.get(WEIGHT)
            if len(row) != len(self.names) + 1 or type(weight) is not int or abs(weight) > MOST_GIVEN:
                return None
        try:
            return [row[name] for name in self.names], weight
        except KeyError:
            return None

    def _lanes(self, values: Sequence[Any], texts: list[tuple[int, int, str]], number: int) -> list[int] | None:
        """The row's lanes; texts are added to `texts` as row, lane and text."""
        lanes = [0] * self.table.width
        for value, (lane, null_lane, bit, reader) in zip(values, self.fields, strict=True):
            if value is None:
                if null_lane < 0:
                    return None
                lanes[null_lane] |= 1 << bit
            elif reader is _text:
                if type(value) is not str or len(value) > _MOST_TEXT:
                    return None
                texts.append((number, lane, value))
            else:
                read = reader(value)
                if read is None:
                    return None
                lanes[lane : lane + len(read)] = read
        return lanes


def _reader(type_: Type) -> Reader | None:
    """None for a type that has no plain values."""
    if type_.is_integer:
        return _integer(*INTEGER_RANGE[type_.name])
    if type_.name == "DATE":
        return _date
    if type_.name == "DECIMAL":
        return _decimal(type_)
    if type_.name == "STRING" and type_.length is None:
        return _text
    return None


def _text(value: Any) -> tuple[int, ...] | None:
    return None


def _integer(least: int, greatest: int) -> Reader:
    def read(value: Any) -> tuple[int, ...] | None:
        return (value,) if type(value) is int and least <= value <= greatest else None

    return read


def _date(value: Any) -> tuple[int, ...] | None:
    return (value.toordinal() - _EPOCH,) if type(value) is dt.date else None


def _decimal(type_: Type) -> Reader:
    most, scale, narrow = 10**type_.precision, type_.scale, type_.lanes == 1
    factor = 10**scale

    def read(value: Any) -> tuple[int, ...] | None:
        if type(value) is int:
            unscaled = value * factor
        elif type(value) is Decimal:
            numerator, denominator = value.as_integer_ratio() if value.is_finite() else (0, 0)
            if not denominator or numerator * factor % denominator:
                return None
            unscaled = numerator * factor // denominator
        else:
            return None
        if not -most < unscaled < most:
            return None
        if narrow:
            return (unscaled,)
        high, low = wide.split(unscaled)
        return low, high

    return read
