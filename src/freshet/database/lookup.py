"""Lookup of a view's rows by some of its columns: Python keys become rows of lanes, rows of lanes become Python values.

Law: two values are the same key exactly when their lanes are (scalar/lanes), so a key is turned into lanes once and
everything after that compares integers. Text that is not in the pool is in no row. Nothing here adds to the pool: a
lookup changes nothing.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from freshet.engine.maintained import Finder
from freshet.errors import PlanError, brief
from freshet.logical.query import Field
from freshet.scalar.arrow import to_arrow, wanted
from freshet.scalar.column import Column
from freshet.scalar.lanes import NULLS, value_lanes, width
from freshet.scalar.numpy_values import of_numpy
from freshet.scalar.types import INTEGER_RANGE, Type
from freshet.state.arrays import Int64s
from freshet.state.strings import StringPool

Row = dict[str, Any]

_DAY_0 = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_LOW = (1 << 64) - 1


class AbsentValueError(Exception):
    """A value of the right kind that no row can have: one beyond its type, or text that no row has."""


# From values to lanes ---------------------------------------------------------------------------------------------


def key_row(types: Sequence[Type], values: Sequence[Any], pool: StringPool) -> Int64s | None:
    """Values in their lane form (see `Literal`) as one row of lanes; None if no row has them."""
    out = np.zeros((1, width(types)), np.int64)
    lane, nulls = 0, value_lanes(types)
    for i, (kind, value) in enumerate(zip(types, values, strict=True)):
        if value is None:
            out[0, nulls + i // NULLS] |= 1 << i % NULLS
        elif kind.pooled:
            text = pool.find(value)
            if text < 0:
                return None
            out[0, lane] = text
        elif kind.is_fraction:
            number = float(value)
            out[0, lane] = 0x7FF8000000000000 if number != number else _BITS.unpack(_DOUBLE.pack(number + 0.0))[0]
        elif kind.lanes == 2:
            low = value & _LOW
            out[0, lane] = low - (1 << 64) if low >> 63 else low
            out[0, lane + 1] = value >> 64
        else:
            out[0, lane] = value
        lane += kind.lanes
    return out


def lane_form(value: Any, field: Field) -> Any:
    """A Python value in the lane form of a column. Raises AbsentValueError if it is beyond what the column can hold,
    PlanError if it is of another kind."""
    kind = field.type
    if value is None:
        return None
    if isinstance(value, np.generic):
        try:
            value = of_numpy(value)
        except ValueError:
            raise AbsentValueError from None
    read = _READERS.get(kind.name)
    made = None if read is None else read(value, kind)
    if made is None:
        reason = f"{brief(value)} is not a value of {field.name}, which is {kind}; give {wanted(kind)}"
        raise PlanError(reason)
    return made


def _integer(value: Any, kind: Type) -> int | None:
    if type(value) is not int:
        return None
    least, greatest = INTEGER_RANGE[kind.name]
    if not least <= value <= greatest:
        raise AbsentValueError
    return value


def _fraction(value: Any, kind: Type) -> float | None:
    if type(value) not in (int, float):
        return None
    if isinstance(value, float) and value != value:
        return value
    try:
        held = struct.unpack("f", struct.pack("f", float(value)))[0] if kind.name == "FLOAT" else float(value)
    except OverflowError:
        raise AbsentValueError from None
    if held != value:
        raise AbsentValueError
    return held


def _decimal(value: Any, kind: Type) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    number = Decimal(value)
    if not number.is_finite():
        return None
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    while len(digits) > 76 and not digits[-1]:
        digits, exponent = digits[:-1], exponent + 1
    if len(digits) > 76:
        raise AbsentValueError
    unscaled, shift = int("".join(map(str, digits)) or "0"), exponent + kind.scale
    if unscaled and shift > kind.precision:
        raise AbsentValueError
    unscaled, left = (unscaled * 10**shift, 0) if shift >= 0 else divmod(unscaled, 10 ** min(-shift, 100))
    if left or unscaled >= 10**kind.precision:
        raise AbsentValueError
    return int(-unscaled if sign else unscaled)


def _date(value: Any, _: Type) -> int | None:
    if isinstance(value, str):
        value = _iso(dt.date.fromisoformat, value)
    return dt.date.toordinal(value) - _DAY_0 if type(value) is dt.date else None


def _moment(value: Any, _: Type) -> int | None:
    if isinstance(value, str):
        value = _iso(dt.datetime.fromisoformat, value)
    if not isinstance(value, dt.datetime) or value != value:  # the NaT of pandas
        return None
    try:
        naive: dt.datetime = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        raise AbsentValueError from None
    return int((naive - _EPOCH) // _MICROSECOND)


def _within(value: int, bits: int) -> int:
    if not -(1 << bits) <= value < 1 << bits:
        raise AbsentValueError
    return value


def _iso(read: Any, text: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return None


def _text(value: Any, kind: Type) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        raise AbsentValueError from None
    return value.ljust(kind.length) if kind.char and kind.length is not None else value  # padded to the declared length


_READERS: dict[str, Callable[[Any, Type], Any]] = {
    **dict.fromkeys(INTEGER_RANGE, _integer),
    "FLOAT": _fraction,
    "DOUBLE": _fraction,
    "DECIMAL": _decimal,
    "DATE": _date,
    "TIMESTAMP": _moment,
    "STRING": _text,
    "BINARY": lambda value, _: bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else None,
    "BOOLEAN": lambda value, _: int(value) if isinstance(value, bool) else None,
    "MICROS": lambda value, _: _within(value // _MICROSECOND, 63) if isinstance(value, dt.timedelta) else None,
    "MONTHS": lambda value, _: _within(value, 31) if type(value) is int else None,
}


# The columns of a key -----------------------------------------------------------------------------------------------


def chosen(
    finders: Sequence[Finder], fields: Sequence[Field], view: str, key: Any, by: str | Sequence[str] | None
) -> tuple[Finder, list[Any]]:
    """The finder for a key, and the values of the key in the order of its columns."""
    if by is None and isinstance(key, Mapping):
        by, key = tuple(key), tuple(key.values())
    if by is None:
        finder = next((f for f in finders if f.unique), None) or (finders[0] if len(finders) == 1 else None)
        if finder is None:
            what = f"view {view} has no key of its own" if not finders else f"view {view} has several indexes"
            raise PlanError(f"{what}; {_remedy(finders, fields, view)}")
        values = _split(key, [fields[c].name for c in finder.columns])
        return finder, values
    given: Any = by
    names = list(given) if isinstance(given, (list, tuple)) else [given]
    if not all(isinstance(name, str) for name in names):
        raise PlanError(f"by is {brief(by)}; give the name of a column, or a list of names")
    places = [_place(fields, name, view) for name in names]
    for finder in finders:
        if sorted(finder.columns) == sorted(places):
            values = _split(key, names)
            return finder, [values[places.index(c)] for c in finder.columns]
    listed = ", ".join(names)
    raise PlanError(f"rows of view {view} cannot be found by {listed}; {_remedy(finders, fields, view, listed)}")


def _split(key: Any, names: Sequence[str]) -> list[Any]:
    if len(names) == 1 and not isinstance(key, (tuple, list)):
        return [key]
    if not isinstance(key, (tuple, list)) or len(key) != len(names):
        raise PlanError(f"the key is of {', '.join(names)}; give a tuple of {len(names)}, not {brief(key)}")
    return list(key)


def _place(fields: Sequence[Field], name: str, view: str) -> int:
    for place, field in enumerate(fields):
        if field.name.lower() == str(name).lower():
            return place
    raise PlanError(f"no column {name}; view {view} has {', '.join(f.name for f in fields)}")


def _remedy(finders: Sequence[Finder], fields: Sequence[Field], view: str, wanted: str = "column") -> str:
    ways = " or ".join(f"by=({', '.join(fields[c].name for c in f.columns)})" for f in finders)
    index = f"CREATE INDEX ON {view} ({wanted})"
    return f"write {ways}, or {index}" if ways else f"declare one with {index}"


# From rows to values --------------------------------------------------------------------------------------------------


def rows_of(finder: Finder, key: Int64s, fields: Sequence[Field], pool: StringPool) -> list[Row]:
    """The rows that have a key, as Arrow's `to_pylist` would return them."""
    stored = finder.stored
    if stored is None or any(f.type.name not in _SHORT for f in fields):
        return as_rows(finder.find(key), [f.name for f in fields])
    rows = []
    for lanes in stored.rows(key):
        row: Row = {}
        for field, (at, lane, null_lane, bit) in zip(fields, stored.cells, strict=True):
            values = lanes[at]
            is_null = (values[null_lane] >> bit) & 1
            row[field.name] = None if is_null else _SHORT[field.type.name](values[lane], pool)
        rows.append(row)
    return rows


def as_rows(columns: Sequence[Column], names: Sequence[str]) -> list[Row]:
    """Rows of Python values, as Arrow's `to_pylist` would return them."""
    made = [python_values(c) for c in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*made, strict=True)]


def python_values(column: Column) -> list[Any]:
    read = None if column.type.is_fraction else _SHORT.get(column.type.name)
    if read is None or (column.type.pooled and column.pool is None):
        return list(to_arrow(column).to_pylist())
    pool: Any = column.pool
    values = [read(v, pool) for v in column.data.tolist()]
    return values if column.valid is None else [v if ok else None for v, ok in zip(values, column.valid, strict=True)]


def _pooled(pool: StringPool, number: int) -> str:
    start, length = pool.offsets.data[number, :2].tolist()
    return bytes(pool.bytes.data[start : start + length]).decode()


def _double(bits: int, _: StringPool) -> float:
    return float(_DOUBLE.unpack(_BITS.pack(bits))[0])


_BITS, _DOUBLE = struct.Struct("q"), struct.Struct("d")

#: Python values of one lane, for the simple types.
_SHORT: dict[str, Callable[[int, StringPool], Any]] = {
    **dict.fromkeys(INTEGER_RANGE, lambda lane, _: lane),
    "BOOLEAN": lambda lane, _: bool(lane),
    "DATE": lambda lane, _: dt.date.fromordinal(_DAY_0 + lane),
    "TIMESTAMP": lambda lane, _: _EPOCH + dt.timedelta(microseconds=lane),
    "DOUBLE": _double,
    "FLOAT": _double,
    "STRING": lambda lane, pool: _pooled(pool, lane),
}
