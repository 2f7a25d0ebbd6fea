"""Reads small numbers of rows of plain Python values as lanes, without a detour through Arrow.

Law: rows are read here exactly as `intake` and `changes` would read them, and everything that is not plain is left to
them: other types, missing or unknown columns, subclasses, values out of range, keys that do not exist. So no row is
refused here, and the number of rows does not affect how they are read. Of upserts, only those are read here that come
alone, each with another key: they depend on no other row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.change_type import CHANGE_TYPE, WEIGHT, ChangeType
from freshet.engine.table import Table
from freshet.logical.query import TableSchema
from freshet.scalar.types import INTEGER_RANGE, Type
from freshet.state import wide
from freshet.state.arrays import Int64s, texts_of
from freshet.state.arrow_rows import MOST_GIVEN
from freshet.state.heap import FullHeapError

MOST_ROWS = 8  # beyond these, Arrow is as fast
_MOST_TEXT = 4096  # characters; longer ones are checked elsewhere

_EPOCH = dt.date(1970, 1, 1).toordinal()

_KINDS = {kind.value: kind for kind in ChangeType}

#: The lanes of a value; None if it is not plain.
Reader = Callable[[Any], tuple[int, ...] | None]


@dataclass(slots=True)
class _Read:
    """Rows read so far."""

    lanes: list[list[int]] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    texts: list[tuple[int, int, str]] = field(default_factory=list)  # row, lane, text
    removed: dict[int, list[int]] = field(default_factory=dict)  # rows given by their key: the lanes that are given
    upserts: int = 0


class PlainRows:
    """How the rows of one table are read."""

    def __init__(self, table: Table, schema: TableSchema) -> None:
        self.table = table
        self.names = [f.name for f in schema.fields]
        self.types = [f.type for f in schema.fields]
        readers = [_reader(type_) for type_ in self.types]
        self.known = None not in readers
        self.fields = [(*table.lane_of(i), reader) for i, reader in enumerate(readers) if reader is not None]

    def read(self, rows: Sequence[Any]) -> tuple[Int64s, Int64s] | None:
        """Rows of lanes, and weights; None if a row is not plain."""
        if not self.known or not 0 < len(rows) <= MOST_ROWS:
            return None
        read, fed = _Read(), _is_fed(rows[0])
        for row in rows:
            if type(row) is not type(rows[0]) or _is_fed(row) != fed:
                return None
            if not (self._add_fed(row, read) if fed else self._add(row, read)):
                return None
        packed = np.array(read.lanes, np.int64)
        if read.texts:
            plain = set(self.table.plain_lanes.tolist())
            try:
                for texts, kept in (
                    ([t for t in read.texts if t[1] not in plain], self.table.pool.intern),
                    ([t for t in read.texts if t[1] in plain], self._stored),
                ):
                    if texts:
                        lanes = kept(texts_of([text for _, _, text in texts])).tolist()
                        for (number, lane, _), value in zip(texts, lanes, strict=True):
                            packed[number, lane] = value
            except (pa.ArrowException, UnicodeError, FullHeapError):
                return None
        weights = np.array(read.weights, np.int64)
        if read.upserts:
            return self._upserted(packed, weights) if read.upserts == len(rows) else None
        return (packed, weights) if not read.removed or self._completed(packed, read.removed) else None

    def _stored(self, texts: pa.Array) -> Int64s:
        """The lanes of plain texts."""
        assert self.table.heap is not None
        return self.table.heap.add(texts)

    def _add(self, row: Any, read: _Read) -> bool:
        """Reads a row that is inserted, or has a weight. False if it is not plain, as below."""
        if type(row) is tuple:
            return len(row) == len(self.names) and self._add_values(row, 1, read)
        if type(row) is not dict:
            return False
        weight: Any = 1
        if len(row) != len(self.names):
            weight = row.get(WEIGHT)
            if len(row) != len(self.names) + 1 or type(weight) is not int or abs(weight) > MOST_GIVEN:
                return False
        try:
            return self._add_values([row[name] for name in self.names], weight, read)
        except KeyError:
            return False

    def _add_fed(self, row: dict[str, Any], read: _Read) -> bool:
        """Reads a row with a change type."""
        given = row[CHANGE_TYPE]
        kind = _KINDS.get(given) if type(given) is str else None
        if kind is None:
            return False
        if kind is ChangeType.UPSERT:
            read.upserts += 1
        keyed = bool(self.table.primary_key)
        if kind.sign > 0 or not keyed:
            complete = len(row) == len(self.names) + 1 and all(name in row for name in self.names)
            if not complete or (kind is ChangeType.UPSERT and not keyed):
                return False
            return self._add_values([row[name] for name in self.names], kind.sign, read)
        values = [row.get(name) for name in self.names]
        if sum(name in row for name in self.names) != len(row) - 1:
            return False
        if any(values[column] is None for column in self.table.primary_key):
            return False
        lanes: list[int] = []
        for value, (lane, _, _, _), type_ in zip(values, self.fields, self.types, strict=True):
            if value is not None:
                lanes += range(lane, lane + type_.lanes)
        read.removed[len(read.lanes)] = lanes
        return self._add_values(values, -1, read, partial=True)

    def _add_values(self, values: Sequence[Any], weight: int, read: _Read, partial: bool = False) -> bool:
        """Reads the values of all columns in their order. In a partial row, None stands for a value that is not
        given."""
        lanes = [0] * self.table.width
        for value, (lane, null_lane, bit, reader) in zip(values, self.fields, strict=True):
            if value is None:
                if not partial:
                    if null_lane < 0:
                        return False
                    lanes[null_lane] |= 1 << bit
            elif reader is _text:
                if type(value) is not str or len(value) > _MOST_TEXT:
                    return False
                read.texts.append((len(read.lanes), lane, value))
            else:
                made = reader(value)
                if made is None:
                    return False
                lanes[lane : lane + len(made)] = made
        read.lanes.append(lanes)
        read.weights.append(weight)
        return True

    def _completed(self, packed: Int64s, removed: dict[int, list[int]]) -> bool:
        """Completes removed rows to the stored ones. False if a row does not exist, or differs from what is given."""
        stored = self.table.tuples.lanes.data
        for number, slot in zip(removed, self.table.tuples.find(packed[[*removed]]).tolist(), strict=True):
            lanes = removed[number]
            if slot < 0:
                return False
            given, held = packed[number : number + 1], stored[slot : slot + 1]
            if any(self.table.differ(given, held, lane)[0] for lane in lanes if given[0, lane] != held[0, lane]):
                return False
            packed[number] = stored[slot]
        return True

    def _upserted(self, packed: Int64s, weights: Int64s) -> tuple[Int64s, Int64s] | None:
        """The stored rows that upserts replace, and the new ones. None if two upserts have the same key."""
        tuples = self.table.tuples
        if len(packed) > 1 and len({row.tobytes() for row in packed[:, : tuples.key_lanes]}) < len(packed):
            return None
        slots = tuples.find(packed)
        old = tuples.lanes.data[slots[slots >= 0]]
        return np.concatenate([old, packed]), np.concatenate([np.full(len(old), -1, np.int64), weights])


def _is_fed(row: Any) -> bool:
    return type(row) is dict and CHANGE_TYPE in row


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
