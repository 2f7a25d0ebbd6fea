"""Columns to Arrow and back, exactly.

Input values must fit their type: a value that does not fit is refused with its row. As in Spark's store assignment,
only digits beyond a decimal's scale are rounded (HALF_UP); a number is never read from text, and a fraction never
becomes an integer. Timestamps with a zone are kept in UTC.

Arrays of 64-bit values without NULLs are shared in both directions, not copied; shared arrays must not be written to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from freshet.errors import EvaluationError, TooMuchTextError, brief
from freshet.scalar.column import Column
from freshet.scalar.functions.casting import as_double, from_doubles, rescaled, unfit
from freshet.scalar.functions.elements import check_keys
from freshet.scalar.functions.rows import first_bad, text_of, within_years
from freshet.scalar.functions.text_casts import decimal_text, reader
from freshet.scalar.nested import Lists, distinct, fields_of, lists_of, make_lists, make_structs, valid_of
from freshet.scalar.types import BIGINT, DATE, DOUBLE, INT, INTEGER_RANGE, STRING, TIME_RANGE, Type, decimal
from freshet.state import wide
from freshet.state.arrays import BYTES, TEXT, Bools, is_bytes, is_text, values_of

_DAY, _SECOND = 86_400_000_000, 1_000_000
#: How many units of a timestamp make a second.
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_LONGEST_TEXT = (1 << 31) - 1  # bytes of one input text: the limit of an array of strings
#: Bytes of text in a column of one batch of an answer; Arrow strings hold less than 2 GiB.
MOST_TEXT = 1 << 28
_WIDTHS = {"TINYINT": np.int8, "SMALLINT": np.int16, "INT": np.int32, "DATE": np.int32, "FLOAT": np.float32,
           "MONTHS": np.int32}  # fmt: skip


# To Arrow -------------------------------------------------------------------------------------------------------


def to_arrow(column: Column) -> pa.Array:
    """The column as an Arrow array of its type's `to_arrow()`. Raises TooMuchTextError if there is too much text for
    one array: then write fewer rows."""
    t, valid = column.type, column.valid
    rows = len(column)
    if t.name == "VOID":
        return pa.nulls(rows)
    if t.pooled:
        return _written(column)
    if t.name == "BOOLEAN":
        values: npt.NDArray[Any] = np.packbits(np.asarray(column.data) != 0, bitorder="little")
    elif t.name == "DECIMAL":
        values = np.empty((rows, 2), np.int64)
        values[:, 0] = column.data
        values[:, 1] = column.data >> 63 if column.hi is None else column.hi
    else:
        values = np.ascontiguousarray(column.data)
        if t.name in _WIDTHS:
            with np.errstate(invalid="ignore", over="ignore"):
                values = values.astype(_WIDTHS[t.name])
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(t.to_arrow(), rows, [bitmap, pa.py_buffer(values)])


def to_batches(columns: Sequence[Column], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The columns as a batch of the schema, or as several if there is much text."""
    try:
        arrays = [to_arrow(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
    except TooMuchTextError:
        places = np.arange(len(columns[0]))
        for part in np.array_split(places, 2):
            yield from to_batches([c.take(part) for c in columns], schema)
    else:
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _written(column: Column) -> pa.Array:
    pool, is_nested = column.pool, column.type.is_nested
    if pool is not None and not is_nested:
        return pool.strings(column.data, column.valid, column.type.to_arrow(), MOST_TEXT)
    size = pool.size(column.data) if pool is not None else column.data.nbytes
    if size > MOST_TEXT and len(column) > 1:
        raise TooMuchTextError(f"{size:,} bytes of text in one batch; take fewer rows")
    if is_nested:
        return _nested(column)
    return _masked(text_of(column), column.valid).cast(column.type.to_arrow())


def _nested(column: Column) -> pa.Array:
    """Arrays, structs and maps; each distinct value of the pool is taken apart once."""
    values, which = distinct(column)
    type_, valid = column.type, valid_of(values)
    bitmap = None if valid is None else pa.array(~valid)
    if type_.name == "STRUCT":
        fields = [to_arrow(c) for c in fields_of(values)]
        if not fields:
            kept = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
            made = pa.StructArray.from_buffers(type_.to_arrow(), len(values), [kept])
        else:
            made = pa.StructArray.from_arrays(fields, fields=list(type_.to_arrow()), mask=bitmap)
    else:
        lists = lists_of(values)
        offsets, columns = pa.array(lists.offsets, pa.int32()), [to_arrow(c) for c in lists.columns]
        if type_.name == "MAP":
            columns[0] = columns[0].cast(type_.to_arrow().key_type)
            made = pa.MapArray.from_arrays(offsets, *columns, type=type_.to_arrow(), mask=bitmap)
        else:
            made = pa.ListArray.from_arrays(offsets, *columns, type=type_.to_arrow(), mask=bitmap)
    return made if which is None else made.take(pa.array(which))


def _masked(text: pa.Array, valid: Bools | None) -> pa.Array:
    if valid is None or text.null_count == np.count_nonzero(~valid):
        return text
    return pc.if_else(pa.array(valid), text, pa.scalar(None, text.type))


# From Arrow -----------------------------------------------------------------------------------------------------


def from_arrow(array: pa.Array | pa.ChunkedArray, type: Type) -> Column:
    """The array as a column of `type`. Raises EvaluationError(reason, row) for the first value that does not fit."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    array = plain(array)
    valid = None if array.null_count == 0 else values_of(array.is_valid())
    if pt.is_null(array.type):
        return _nothing(len(array), type)
    read = _READERS.get(type.name)
    made = None if read is None else read(array, valid, type)
    if made is None:
        row = 0 if valid is None else int(valid.argmax())
        if not len(array) or (valid is not None and not valid.any()):
            return _nothing(len(array), type)
        raise EvaluationError(f"{_shown(array, row)} ({array.type}) is not a value of {type}; give {wanted(type)}", row)
    return made


def plain(array: pa.Array) -> pa.Array:
    """The array without wrappers around its values: extensions, dictionaries, runs."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            is_boolean = array.type.extension_name == "arrow.bool8"
            array = pc.not_equal(array.storage, 0) if is_boolean else array.storage
        elif pt.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        elif pt.is_dictionary(array.type):
            values = plain(array.dictionary)
            array = _takeable(values).take(array.indices)
        else:
            return array


def _takeable(values: pa.Array) -> pa.Array:
    """Converts views, from which Arrow cannot take rows."""
    if pt.is_string_view(values.type) or pt.is_binary_view(values.type):
        return values.cast(TEXT if pt.is_string_view(values.type) else BYTES)
    return values


def _shown(array: pa.Array, row: int) -> str:
    """A value as shown in errors; some Arrow values have no Python form."""
    try:
        return brief(array[row].as_py())
    except (ValueError, OverflowError, pa.ArrowException):
        return "a value"


def wanted(type: Type) -> str:
    """A description of valid values for a column of a type."""
    wanted = {"STRING": "text", "BINARY": "bytes", "BOOLEAN": "booleans", "DATE": "dates", "TIMESTAMP": "timestamps",
              "MICROS": "durations (timedelta)", "MONTHS": "whole numbers of months", "ARRAY": "lists",
              "STRUCT": "dicts of its fields", "MAP": "dicts"}  # fmt: skip
    return wanted.get(type.name, "numbers")


def _nothing(rows: int, type: Type) -> Column:
    valid = np.zeros(rows, np.bool_) if rows else None
    if type.pooled:
        return Column(type, pa.nulls(rows, type.pooled), valid)
    return Column(type, np.zeros(rows, np.float64 if type.is_fraction else np.int64), valid)


class _WritableBuffer:
    """An Arrow buffer as a numpy array, marked writable because a read-only array is a different type for numba."""

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
    return np.asarray(_WritableBuffer(buffer, dtype))[array.offset * lanes : (array.offset + len(array)) * lanes]


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
        array = _in_38_digits(array)
    lanes = _values(array, np.int64, 2)
    lo, hi = np.array(lanes[0::2]), np.array(lanes[1::2])
    if valid is not None:
        lo[~valid], hi[~valid] = 0, 0
    return Column(decimal(array.type.precision, max(scale, 0)), lo, valid, wide.narrow(lo, hi)), scale


def _in_38_digits(array: pa.Array) -> pa.Array:
    """Decimals of any width as those of 128 bits."""
    kind = pa.decimal128(38, array.type.scale)
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        row = next(i for i in range(len(array)) if not _casts(array[i : i + 1], kind))
        raise EvaluationError(f"{_shown(array, row)} has more than 38 digits; round it first", row) from None


def _casts(array: pa.Array, kind: pa.DataType) -> bool:
    try:
        array.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


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
    return Column(type, values_of(filled).astype(np.int64), valid)


def _text(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    if not is_text(t):
        return None
    check_lengths(array)
    column = Column(STRING, array.cast(TEXT), valid)
    return Column(type, column.data, valid) if type.length is None else reader(type)(column)


def _bytes(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    if not is_bytes(array.type):
        return None
    check_lengths(array)
    return Column(type, array.cast(BYTES), valid)


def check_lengths(text: pa.Array) -> None:
    """Refuses a text that is too long for an array of strings; few arrays are large enough to have one."""
    if text.type in (TEXT, BYTES) and text.nbytes > _LONGEST_TEXT:
        sizes = values_of(pc.binary_length(text).fill_null(0))
        row = int(sizes.argmax())
        if sizes[row] > _LONGEST_TEXT:
            raise EvaluationError(f"a text of {sizes[row]:,} bytes; the limit is {_LONGEST_TEXT:,}", row)


def _dates(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    if pt.is_date32(t):
        return within_years(_values(array, np.int32).astype(np.int64), valid, type)
    if not (pt.is_date64(t) or pt.is_timestamp(t)):
        return None
    units = _UNITS["ms" if pt.is_date64(t) else t.unit] * 86_400
    data = _values(array, np.int64)
    bad = first_bad(data % units != 0, valid)
    if bad >= 0:
        raise EvaluationError(f"{_shown(array, bad)} has a time of day; {type} has none: truncate it first", bad)
    return within_years(data // units, valid, type)


def _durations(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    """Durations of any unit, in microseconds."""
    if not pt.is_duration(array.type):
        return None
    data, units = _values(array, np.int64), _UNITS[array.type.unit]
    if units >= _SECOND:
        return Column(type, data // (units // _SECOND), valid)
    most = INTEGER_RANGE["BIGINT"][1] // (_SECOND // units)
    bad = first_bad((data > most) | (data < -most), valid)
    if bad >= 0:
        raise unfit(f"{data[bad]} {array.type.unit}", type, bad)
    return Column(type, data * (_SECOND // units), valid)


def _months(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    """An interval of years and months is an integer number of months."""
    if not pt.is_integer(array.type):
        return None
    months = _integers(array, valid, INT)
    assert months is not None
    return Column(type, months.data, valid)


def _timestamps(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    if pt.is_timestamp(t):
        data, units = _values(array, np.int64), _UNITS[t.unit]
        if units >= _SECOND:
            return within_years(data // (units // _SECOND), valid, type)
        times, most = _SECOND // units, TIME_RANGE["TIMESTAMP"][1] // (_SECOND // units) + 1
        return within_years(np.clip(data, -most, most) * times, valid, type)
    days = _dates(array, valid, DATE) if pt.is_date(t) else None
    return None if days is None else Column(type, days.data * _DAY, valid)


def _arrays(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    is_view = pt.is_list_view(t) or pt.is_large_list_view(t)
    if not (pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t) or is_view):
        return None
    return _entries(array, [array.flatten()], valid, type)


def _maps(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    if not pt.is_map(array.type):
        return None
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    buffers, kind = array.buffers()[:2], pa.list_(entries.type)
    lists = pa.Array.from_buffers(kind, len(array), buffers, offset=array.offset, children=[entries])
    made = _entries(lists, lists.flatten().flatten(), valid, type)
    check_keys(lists_of(made), valid)
    return made


def _entries(array: pa.Array, parts: Sequence[pa.Array], valid: Bools | None, type: Type) -> Column:
    """Lists with elements, or maps with keys and values, from those of all rows."""
    sizes = values_of(pc.list_value_length(array).fill_null(0)).astype(np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    columns = []
    for part, kind in zip(parts, type.parts, strict=True):
        try:
            columns.append(from_arrow(part, kind))
        except EvaluationError as e:
            row = None if e.row is None else int(np.searchsorted(offsets, e.row, side="right")) - 1
            raise EvaluationError(e.reason, row) from None
    return make_lists(type, Lists(offsets, tuple(columns)), valid)


def _structs(array: pa.Array, valid: Bools | None, type: Type) -> Column | None:
    t = array.type
    if not pt.is_struct(t):
        return None
    names = [name for name, _ in type.fields]
    for field in t:
        if field.name not in names:
            known = ", ".join(names)
            raise EvaluationError(f"no field {field.name} in {type}; it has {known}", 0 if valid is None else None)
    given, columns = {field.name: part for field, part in zip(t, array.flatten(), strict=True)}, []
    for name, kind in type.fields:
        try:
            columns.append(_nothing(len(array), kind) if name not in given else from_arrow(given[name], kind))
        except EvaluationError as e:
            raise EvaluationError(f"{name}: {e.reason}", e.row) from None
    return make_structs(type, columns, valid, len(array))


_READERS = {
    "ARRAY": _arrays,
    "STRUCT": _structs,
    "MAP": _maps,
    "TINYINT": _integers,
    "SMALLINT": _integers,
    "INT": _integers,
    "BIGINT": _integers,
    "DECIMAL": _decimals,
    "FLOAT": _fractions,
    "DOUBLE": _fractions,
    "BOOLEAN": _booleans,
    "STRING": _text,
    "BINARY": _bytes,
    "DATE": _dates,
    "TIMESTAMP": _timestamps,
    "MICROS": _durations,
    "MONTHS": _months,
}
