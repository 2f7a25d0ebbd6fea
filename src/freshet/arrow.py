"""Columns to Arrow and back, exactly.

What comes in must fit its type: a value that does not is refused with its row. As in Spark's store assignment, only
digits beyond a decimal's scale are rounded (HALF_UP); a number is never read from text, and a fraction never becomes an
integer. Timestamps with a zone are kept in UTC.

Arrays of 64-bit values without NULLs are lent both ways, not copied; nobody may write into a lent array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from freshet.column import TEXT, Bools, Column, Int64s
from freshet.errors import EvaluationError, TooMuchTextError
from freshet.lists import read_lists
from freshet.sql.functions.casting import as_double, from_doubles, rescaled, unfit
from freshet.sql.functions.rows import first_bad, text_of
from freshet.sql.functions.text_casts import decimal_text, reader
from freshet.state import wide
from freshet.types import BIGINT, DOUBLE, INTEGER_RANGE, STRING, Type, decimal

_DAY = 86_400_000_000
_MICROS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
#: Bytes of text in a column of one batch of an answer; strings hold less than 2 GiB.
MOST_TEXT = 1 << 28
_WIDTHS = {"TINYINT": np.int8, "SMALLINT": np.int16, "INT": np.int32, "DATE": np.int32, "FLOAT": np.float32}


# Out ------------------------------------------------------------------------------------------------------------


def to_arrow(column: Column) -> pa.Array:
    """The column as an Arrow array of its type's `to_arrow()`. Raises TooMuchTextError for text that one array should
    not hold: fewer rows can be written."""
    t, valid = column.type, column.valid
    rows = len(column)
    if t.name == "VOID":
        return pa.nulls(rows)
    if t.name == "STRING":
        return _written(column)
    if t.name == "BOOLEAN":
        return pa.array(column.data != 0, mask=None if valid is None else ~valid)
    if t.name == "DECIMAL":
        values: npt.NDArray[Any] = np.empty((rows, 2), np.int64)
        values[:, 0] = column.data
        values[:, 1] = column.data >> 63 if column.hi is None else column.hi
    else:
        values = np.ascontiguousarray(column.data)
        if t.name in _WIDTHS:
            with np.errstate(invalid="ignore", over="ignore"):
                values = values.astype(_WIDTHS[t.name])
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    kind = pa.int64() if t.name in ("MONTHS", "MICROS") else t.to_arrow()
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(values)])


def to_batches(columns: Sequence[Column], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The columns as a batch of the schema; as several where there is much text."""
    try:
        arrays = [to_arrow(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
    except TooMuchTextError:
        places = np.arange(len(columns[0]))
        for part in np.array_split(places, 2):
            yield from to_batches([c.take(part) for c in columns], schema)
    else:
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _written(column: Column) -> pa.Array:
    pool, items = column.pool, column.type.items
    if pool is not None and items is None:
        return pool.strings(column.data, column.valid, MOST_TEXT)
    size = pool.size(column.data) if pool is not None else column.data.nbytes
    if size > MOST_TEXT and len(column) > 1:
        raise TooMuchTextError(f"{size:,} bytes of text in one batch; take fewer rows")
    text = _masked(text_of(column), column.valid)
    return text.cast(pa.string()) if items is None else read_lists(text, items.to_arrow())


def _masked(text: pa.Array, valid: Bools | None) -> pa.Array:
    if valid is None or text.null_count == np.count_nonzero(~valid):
        return text
    return pc.if_else(pa.array(valid), text, pa.scalar(None, text.type))


# In -------------------------------------------------------------------------------------------------------------


def from_arrow(array: pa.Array | pa.ChunkedArray, type: Type) -> Column:
    """The array as a column of `type`. Raises EvaluationError(reason, row) for the first value that does not fit."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    valid = None if array.null_count == 0 else np.array(array.is_valid().to_numpy(zero_copy_only=False))
    if pt.is_null(array.type):
        return _nothing(len(array), type)
    read = _READERS.get(type.name)
    made = None if read is None else read(array, valid, type)
    if made is None:
        row = 0 if valid is None else int(valid.argmax())
        if valid is not None and not valid.any():
            return _nothing(len(array), type)
        shown = array[row].as_py()
        raise EvaluationError(f"{shown!r} ({array.type}) is not a value of {type}; give {_wanted(type)}", row)
    return made


def _wanted(type: Type) -> str:
    if type.name == "STRING":
        return "text"
    return {"BOOLEAN": "booleans", "DATE": "dates", "TIMESTAMP": "timestamps"}.get(type.name, "numbers")


def _nothing(rows: int, type: Type) -> Column:
    valid = np.zeros(rows, np.bool_) if rows else None
    if type.name == "STRING":
        return Column(type, pa.nulls(rows, TEXT), valid)
    return Column(type, np.zeros(rows, np.float64 if type.is_fraction else np.int64), valid)


class _Lent:
    """An Arrow buffer as numpy may see it: writable, because numba takes a read-only array for another type."""

    def __init__(self, buffer: pa.Buffer, dtype: npt.DTypeLike) -> None:
        kind = np.dtype(dtype)
        self.buffer = buffer
        self.__array_interface__ = {
            "data": (buffer.address, False),
            "typestr": kind.str,
            "shape": (buffer.size // kind.itemsize,),
            "version": 3,
        }


def _values(array: pa.Array, dtype: npt.DTypeLike, lanes: int = 1) -> npt.NDArray[Any]:
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0 or len(array) == 0:
        return np.zeros(len(array) * lanes, dtype)
    return np.asarray(_Lent(buffer, dtype))[array.offset * lanes : (array.offset + len(array)) * lanes]


def _integers(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    least, greatest = INTEGER_RANGE[type.name]
    if pt.is_integer(t):
        data = _values(array, t.to_pandas_dtype())
        if t.bit_width > 32 or pt.is_unsigned_integer(t) or t.bit_width > _bits(greatest):
            bad = first_bad((data > greatest) | (data < least) if pt.is_signed_integer(t) else data > greatest, valid)
            if bad >= 0:
                raise unfit(int(data[bad]), type, bad)
        return Column(type, data if data.dtype == np.int64 else data.astype(np.int64), valid)
    if pt.is_floating(t):
        doubles = _doubles(array)
        with np.errstate(invalid="ignore"):
            fits = (doubles == np.trunc(doubles)) & (doubles >= float(least)) & (doubles < float(greatest + 1))
            bad = first_bad(~fits, valid)
            if bad >= 0:
                raise unfit(float(doubles[bad]), type, bad)
            return Column(type, doubles.astype(np.int64), valid)
    if pt.is_decimal(t):
        column, scale = _decimal_lanes(array, valid)
        whole = rescaled(column, scale, decimal(38, 0), wide.DOWN)
        back = rescaled(whole, 0, decimal(38, scale))
        same = whole.data >= least
        same &= (whole.data <= greatest) & (back.data == column.data)
        if whole.hi is not None:
            same &= whole.hi == whole.data >> 63
        bad = first_bad(~same, valid)
        if bad >= 0:
            raise unfit(decimal_text(column, scale, bad), type, bad)
        return Column(type, whole.data, valid)
    return None


def _bits(greatest: int) -> int:
    return greatest.bit_length() + 1


def _doubles(array: pa.Array) -> npt.NDArray[np.float64]:
    if array.type == pa.float64():
        return _values(array, np.float64)
    return _values(array, array.type.to_pandas_dtype()).astype(np.float64)


def _decimal_lanes(array: pa.Array, valid: Bools | None) -> tuple[Column, int]:
    """Unscaled values and their scale."""
    scale = array.type.scale
    if not pt.is_decimal128(array.type):
        try:
            array = array.cast(pa.decimal128(38, scale))
        except pa.ArrowInvalid as e:
            raise EvaluationError(f"{array.type} holds a value of more than 38 digits ({e})", None) from None
    lanes = _values(array, np.int64, 2)
    lo, hi = np.array(lanes[0::2]), np.array(lanes[1::2])
    if valid is not None:
        lo[~valid], hi[~valid] = 0, 0
    return Column(decimal(array.type.precision, max(scale, 0)), lo, valid, wide.narrow(lo, hi)), scale


def _decimals(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    if pt.is_decimal(t):
        column, scale = _decimal_lanes(array, valid)
        return rescaled(column, scale, type, digits=column.type.precision)
    if pt.is_integer(t):
        whole = _integers(array, valid, BIGINT)
        assert whole is not None
        return rescaled(whole, 0, type)
    if pt.is_floating(t):
        return from_doubles(Column(DOUBLE, _doubles(array), valid), type)
    return None


def _fractions(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    if pt.is_floating(t):
        data = _doubles(array)
    elif pt.is_integer(t):
        data = _values(array, t.to_pandas_dtype()).astype(np.float64)
    elif pt.is_decimal(t):
        column, scale = _decimal_lanes(array, valid)
        data = as_double(column, scale) if scale >= 0 else column.data * 10.0**-scale
    else:
        return None
    if type.name == "FLOAT":
        with np.errstate(over="ignore"):
            short = data.astype(np.float32).astype(np.float64)
        bad = first_bad(np.isinf(short) & ~np.isinf(data), valid)
        if bad >= 0:
            raise unfit(float(data[bad]), type, bad)
        data = short
    return Column(type, data, valid)


def _booleans(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    if not pt.is_boolean(array.type):
        return None
    filled = array.fill_null(False) if array.null_count else array
    return Column(type, filled.to_numpy(zero_copy_only=False).astype(np.int64), valid)


def _text(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    if not (pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t)):
        return None
    column = Column(STRING, array.cast(TEXT), valid)
    return Column(type, column.data, valid) if type.length is None else reader(type)(column)


def _micros(array: pa.Array) -> Int64s:
    times, parts = _MICROS[array.type.unit]
    data: Int64s = _values(array, np.int64)
    return data if times == parts == 1 else data // parts if parts != 1 else data * times


def _dates(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    if pt.is_date32(t):
        return Column(type, _values(array, np.int32).astype(np.int64), valid)
    if pt.is_date64(t):
        return Column(type, _values(array, np.int64) // 86_400_000, valid)
    if not pt.is_timestamp(t):
        return None
    micros = _micros(array)
    bad = first_bad(micros % _DAY != 0, valid)
    if bad >= 0:
        raise EvaluationError(f"{array[bad].as_py()} has a time of day; {type} holds none: truncate it first", bad)
    return Column(type, micros // _DAY, valid)


def _timestamps(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    if pt.is_timestamp(t):
        if t.unit in ("s", "ms"):
            most = INTEGER_RANGE["BIGINT"][1] // _MICROS[t.unit][0]
            values = _values(array, np.int64)
            bad = first_bad((values > most) | (values < -most), valid)
            if bad >= 0:
                raise unfit(f"{values[bad]} {t.unit}", type, bad)
        return Column(type, _micros(array), valid)
    if pt.is_date(t):
        days = _dates(array, valid, type)
        assert days is not None
        return Column(type, days.data * _DAY, valid)
    return None


_READERS = {
    "TINYINT": _integers,
    "SMALLINT": _integers,
    "INT": _integers,
    "BIGINT": _integers,
    "DECIMAL": _decimals,
    "FLOAT": _fractions,
    "DOUBLE": _fractions,
    "BOOLEAN": _booleans,
    "STRING": _text,
    "DATE": _dates,
    "TIMESTAMP": _timestamps,
}
