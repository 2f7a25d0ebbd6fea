"""Converts rows in any form that users give to one validated Arrow batch.

Accepts Arrow data (tables, batches, readers, anything with `__arrow_c_stream__`), pandas and polars frames, lists of
dicts or tuples, and iterators of any of these. Inputs that run user code while they are read, such as streams and
generators, are collected first, without holding a lock (`gathered`). Law: what passes `check` is valid (every offset,
index and character is within bounds), so kernels may follow its addresses; invalid input raises a ChangeError that
names table, row and column. Only the kernel that reads whole batches (state/arrow_rows) starts before that, and checks
what it follows.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from freshet.database.change_type import CHANGE_TYPE, WEIGHT
from freshet.errors import ChangeError, EvaluationError, brief
from freshet.logical.query import TableSchema
from freshet.scalar.arrow import from_arrow, plain, wanted
from freshet.scalar.numpy_values import is_within_years
from freshet.scalar.types import Type
from freshet.state.arrays import BYTES, TEXT, is_bytes, is_text

_STRING = pa.string()
_FEW = 1024  # rows that are validated in one call
_FORMS = "give Arrow (anything with __arrow_c_stream__), a pandas or polars DataFrame, or a list of dicts or tuples"


def as_batch(schema: TableSchema, rows: Any) -> pa.RecordBatch:
    """Any accepted form as one batch, of which only the sizes of buffers are checked."""
    batch = rows if isinstance(rows, pa.RecordBatch) else _one_batch(schema, _as_table(schema, rows))
    try:
        batch.validate()
    except pa.ArrowException:
        check(schema, batch)
        raise
    return batch


def check(schema: TableSchema, batch: pa.RecordBatch) -> None:
    """Refuses a batch that is not valid."""
    try:
        if batch.num_rows <= _FEW:
            batch.validate(full=True)
        else:
            for array in batch.columns:
                if not _plainly_sound(array):
                    array.validate(full=True)
    except pa.ArrowException:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            _check_sound(schema, name, array)
        raise


def _plainly_sound(values: pa.Array) -> bool:
    """Whether it is ASCII text with increasing offsets within its buffers. This examines whole buffers, whereas a full
    validation examines each text. False also if this cannot be decided."""
    wide = values.type == TEXT
    if not (wide or values.type == _STRING) or values.null_count > 0:
        return False
    _, offsets, texts = values.buffers()
    width = 8 if wide else 4
    if not len(values) or offsets is None or texts is None or offsets.size < width * (values.offset + len(values) + 1):
        return False
    bounds: npt.NDArray[np.integer[Any]] = np.frombuffer(offsets, f"i{width}", len(values) + 1, width * values.offset)
    first, last = int(bounds[0]), int(bounds[-1])
    if not 0 <= first <= last <= texts.size or not (bounds[1:] >= bounds[:-1]).all():
        return False
    return bool(np.frombuffer(texts, np.uint8, last - first, first).max(initial=0) < 0x80)


def _check_sound(schema: TableSchema, name: str, values: pa.Array | pa.ChunkedArray) -> None:
    """Refuses invalid offsets, indices and characters, naming the first row that has one."""
    wrong = _unsound(values)
    if wrong is None:
        return
    begin, end = 0, len(values)
    while end - begin > 1:
        middle = (begin + end) // 2
        if _unsound(values[begin:middle]) is None:
            begin = middle
        else:
            end = middle
    reason = f"{name} is not a valid {values.type} ({wrong}); create it with pyarrow"
    raise ChangeError(reason, schema.name, begin) from None


def _unsound(values: pa.Array | pa.ChunkedArray) -> str | None:
    try:
        values.validate(full=True)
    except pa.ArrowException as e:
        return str(e)
    return None


def _one_batch(schema: TableSchema, table: pa.Table) -> pa.RecordBatch:
    batches = table.to_batches()
    if len(batches) == 1:
        return batches[0]
    if not table.num_columns:
        return pa.RecordBatch.from_pylist([])
    arrays = [_one_array(schema, name, c) for name, c in zip(table.column_names, table.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=table.column_names)


def _one_array(schema: TableSchema, name: str, chunks: pa.ChunkedArray) -> pa.Array:
    _check_sound(schema, name, chunks)
    if is_text(chunks.type) or is_bytes(chunks.type):
        # all together may exceed the capacity of an array of strings
        chunks = chunks.cast(TEXT if is_text(chunks.type) else BYTES)
    elif pt.is_dictionary(chunks.type):
        chunks = pa.chunked_array([plain(c) for c in chunks.chunks] or [plain(pa.array([], chunks.type))])
    whole = chunks.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


# Forms --------------------------------------------------------------------------------------------------------------


def _as_table(schema: TableSchema, rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return _from_rows(schema, rows)
    module, name = type(rows).__module__.split(".")[0], type(rows).__name__
    if module == "pandas" and name == "DataFrame":
        return _from_pandas(schema, rows)
    if module == "polars" and name == "DataFrame":
        for column, kind in zip(rows.columns, rows.dtypes, strict=True):
            if str(kind).startswith("Object"):  # for which Arrow would get addresses
                raise ChangeError(f"column {column} has Python objects; give it a type of polars", schema.name)
        try:
            return rows.to_arrow()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:  # a polars type without Arrow equivalent; a panic of polars is not an Exception
            what = f"the DataFrame has no Arrow form ({type(e).__name__}: {str(e)[:200]})"
            raise ChangeError(f"{what}; cast its columns", schema.name) from None
    raise ChangeError(f"rows are {_article(name)}; {_FORMS}", schema.name)


def gathered(table: str, rows: Any) -> Any:
    """Rows in a form that can be read without running user code for long: streams and generators are read to their end,
    lazy frames are computed. Other rows are returned unchanged."""
    if isinstance(rows, (pa.Table, pa.RecordBatch, Mapping, Sequence)):
        return rows
    module, name = type(rows).__module__.split(".")[0], type(rows).__name__
    if module in ("pandas", "polars") and name in ("DataFrame", "Series"):  # the second of which is refused by name
        return rows
    try:
        if module == "polars" and name == "LazyFrame":
            return rows.collect()
        if hasattr(rows, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(rows).read_all()
        if hasattr(rows, "__arrow_c_array__"):
            return pa.record_batch(rows)
        parts = list(rows) if isinstance(rows, Iterator) else None
    except (KeyboardInterrupt, SystemExit, ChangeError):
        raise
    except BaseException as e:  # a panic of polars is not an Exception
        what = f"the {name} could not be read ({type(e).__name__}: {str(e)[:200]})"
        raise ChangeError(f"{what}; give it as a pyarrow Table", table) from e
    if parts is None:
        return rows
    if not parts or isinstance(parts[0], (Mapping, tuple)):
        return parts
    tables = [_part(table, number, gathered(table, part)) for number, part in enumerate(parts)]
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as e:
        raise ChangeError(f"the batches do not have the same columns ({str(e)[:200]}); give all alike", table) from None


def _part(table: str, number: int, part: Any) -> pa.Table:
    if isinstance(part, pa.RecordBatch):
        return pa.Table.from_batches([part])
    if not isinstance(part, pa.Table):
        reason = f"item {number} of the iterator is {_article(type(part).__name__)}; give batches, dicts or tuples"
        raise ChangeError(reason, table)
    return part


def _article(word: str) -> str:
    return ("an " if word[:1].lower() in "aeiou" else "a ") + word


def _from_pandas(schema: TableSchema, frame: Any) -> pa.Table:
    names = _names(schema, list(frame.columns))
    columns = zip(names, _types(schema, names), strict=True)
    return pa.table([_series(schema.name, n, type_, frame.iloc[:, i]) for i, (n, type_) in enumerate(columns)], names)


def _series(table: str, name: str, type_: Type | None, series: Any) -> pa.Array:
    if str(series.dtype).startswith("Sparse"):
        series = series.sparse.to_dense()
    kind = None if type_ is None else type_.pooled
    try:
        if series.dtype != object:
            return pa.Array.from_pandas(series)
        if kind == TEXT:
            return pa.Array.from_pandas(series, type=TEXT)
    except Exception:  # the value is identified below
        pass
    return _values(table, name, type_, [None if _is_missing(v) else v for v in series.tolist()])


def _is_missing(value: Any) -> bool:
    """Whether pandas uses it for NULL: None, NaN, NaT, NA."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NaTType", "NAType")


def _from_rows(schema: TableSchema, rows: Sequence[Any]) -> pa.Table:
    if rows and isinstance(rows[0], tuple):
        return _from_tuples(schema, rows)
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            reason = f"the row is {_article(type(row).__name__)}; give a dict of column to value, or all as tuples"
            raise ChangeError(reason, schema.name, i)
        if not row:
            raise ChangeError("the row is an empty dict; give a value, or None, for some column", schema.name, i)
    keys = list(dict.fromkeys(name for row in rows for name in row))
    names = _names(schema, keys)
    columns = zip(keys, names, _types(schema, names), strict=True)
    arrays = [_values(schema.name, name, type_, [row.get(key) for row in rows]) for key, name, type_ in columns]
    return pa.table(arrays, names=names)


def _from_tuples(schema: TableSchema, rows: Sequence[Any]) -> pa.Table:
    """Rows with a value for each column, in declaration order; all are inserted."""
    names = [field.name for field in schema.fields]
    for i, row in enumerate(rows):
        if not isinstance(row, tuple):
            reason = f"the row is {_article(type(row).__name__)}, and others are tuples; give all as one or the other"
            raise ChangeError(reason, schema.name, i)
        if len(row) != len(names):
            reason = f"the row has {len(row)} values for {len(names)} columns; give {', '.join(names)}"
            raise ChangeError(reason, schema.name, i)
    columns = enumerate(schema.fields)
    return pa.table([_values(schema.name, f.name, f.type, [row[i] for row in rows]) for i, f in columns], names=names)


def _types(schema: TableSchema, names: list[str]) -> list[Type | None]:
    """The types of columns, None of those that the table lacks."""
    positions = schema.positions()
    places = [positions.get(name.lower()) for name in names]
    return [None if at is None else schema.fields[at].type for at in places]


def _names(schema: TableSchema, keys: Iterable[Any]) -> list[str]:
    names: list[str] = []
    for key in keys:
        name = key if isinstance(key, str) else brief(key)
        if name in names or any("\ud800" <= c <= "\udfff" for c in name):
            what = "given twice" if name in names else "not a column"
            known = ", ".join(f.name for f in schema.fields)
            raise ChangeError(f"{brief(name)} is {what}; the table has {known}", schema.name)
        names.append(name)
    return names


# Python values -----------------------------------------------------------------------------------------------------


def _values(table: str, name: str, type_: Type | None, values: list[Any]) -> pa.Array:
    try:
        return _array(name, type_, values)
    except Exception:  # any error that a user object raises when it is inspected
        pass
    for row, value in enumerate(values):
        try:
            one = _array(name, type_, [value])
            if type_ is not None:
                from_arrow(one, type_)
        except EvaluationError as e:
            raise ChangeError(f"{name}: {e.reason}", table, row) from None
        except Exception:
            raise ChangeError(f"{name} is {brief(value)}, {_not_one(name, type_)}", table, row) from None
    kinds = sorted({type(v).__name__ for v in values if v is not None})
    reason = f"the values of {name} are of several types ({', '.join(kinds[:5])}); give all as {type_ or 'one'}"
    raise ChangeError(reason, table)


def _not_one(name: str, type_: Type | None) -> str:
    if name == WEIGHT:
        return "not a whole number; +n adds n copies, -n removes n"
    if type_ is None:
        return "not text; give a change type"
    return f"not a value of {type_}; give {wanted(type_)}"


def _array(name: str, type_: Type | None, values: list[Any]) -> pa.Array:
    """An Arrow array of values: a number is not accepted as a date, nor a bool as a number."""
    if type_ is None and name == WEIGHT:
        if not all(v is None or _is_number(v) for v in values):
            raise TypeError("a weight is a number")
        return pa.array(values)
    if type_ is None:  # unknown columns are refused later
        return pa.array(values, pa.string()) if name == CHANGE_TYPE else pa.nulls(len(values))
    if type_.is_nested:
        return _nested(name, type_, values)
    if type_.name in _WRITTEN and any(isinstance(v, str) for v in values):
        values = [_read(v, type_) if isinstance(v, str) else v for v in values]
    if type_.name in ("DATE", "TIMESTAMP"):
        return _moments(values, type_)
    if any(isinstance(v, _NEVER_PLAIN) for v in values):
        raise TypeError("a moment or a collection is not a value of the type")
    if type_.name == "BINARY" and not all(v is None or isinstance(v, (bytes, bytearray, memoryview)) for v in values):
        raise TypeError("text is not a value of the type")  # its encoding would be ambiguous
    has_decimals = any(isinstance(v, Decimal) for v in values)
    if type_.name == "DECIMAL" and has_decimals:
        values = [Decimal(v) if type(v) is int else v for v in values]
    kind = None if has_decimals else _PYTHON.get(type_.name)
    made = pa.array(values, kind)
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def _nested(name: str, type_: Type, values: list[Any]) -> pa.Array:
    """Lists of elements; dicts or tuples of a struct's fields; dicts of a map, or lists of its pairs."""
    missing = pa.array([v is None for v in values], pa.bool_())
    if type_.name == "STRUCT":
        names = [field for field, _ in type_.fields]
        rows = [_fields(v, names) for v in values]
        arrays = [_array(name, t, [row[i] for row in rows]) for i, t in enumerate(type_.parts)]
        return pa.StructArray.from_arrays(arrays, names, mask=missing) if names else pa.array(values, pa.struct([]))
    given = [[] if v is None else _elements(v, type_) for v in values]
    sizes = np.array([len(v) for v in given], np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if type_.name == "ARRAY":
        items = _array(name, type_.parts[0], [item for row in given for item in row])
        return pa.LargeListArray.from_arrays(pa.array(offsets), items, mask=missing)
    pairs = [pair for row in given for pair in row]
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError("an entry of a map is a pair")
    keys, items = (_array(name, t, [pair[i] for pair in pairs]) for i, t in enumerate(type_.parts))
    if keys.null_count:
        raise TypeError("a key is not NULL")
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=missing)


def _fields(value: Any, names: list[str]) -> Sequence[Any]:
    """The fields of a struct: those that a dict lacks are NULL."""
    if value is None:
        return [None] * len(names)
    if isinstance(value, Mapping):
        if not all(name in names for name in value):
            raise TypeError("a field that the struct does not have")
        return [value.get(name) for name in names]
    if not isinstance(value, (tuple, list)) or len(value) != len(names):
        raise TypeError("a struct is a dict, or a tuple of all its fields")
    return value


def _elements(value: Any, type_: Type) -> list[Any]:
    if type_.name == "MAP" and isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, np.ndarray):
        is_fraction = type_.parts[-1].is_fraction
        return [None if not is_fraction and _is_missing(v) else v for v in value.tolist()]
    if not isinstance(value, (list, tuple)):
        raise TypeError("a list, or a dict for a map")
    return list(value)


def _read(text: str, type_: Type) -> Any:
    """A value in JSON form: ISO 8601 for dates and timestamps, plain digits for decimals."""
    form, read = _WRITTEN[type_.name]
    if not form.fullmatch(text):
        raise ValueError(f"{text} is not written as a {type_.name}")
    return read(text)


def _moments(values: list[Any], type_: Type) -> pa.Array:
    """Dates and timestamps of Python, numpy and pandas; a DATE with a time of day is refused later."""
    kinds = {type(v) for v in values if v is not None}
    if kinds <= {dt.date}:
        return pa.array(values, pa.date32())
    if all(issubclass(k, dt.date) for k in kinds):
        moments = [dt.datetime.combine(v, dt.time()) if type(v) is dt.date else v for v in values]
        return pa.array(moments, pa.timestamp("us"))
    if all(issubclass(k, (dt.date, np.datetime64)) for k in kinds):
        if not all(is_within_years(v) for v in values if isinstance(v, np.datetime64)):
            raise EvaluationError(f"a {type_} outside the years 1 to 9999; correct its input")
        naive = [v.astimezone(dt.UTC).replace(tzinfo=None) if getattr(v, "tzinfo", None) else v for v in values]
        return pa.array(np.array(naive, "M8[us]"))
    raise TypeError(f"{type_.name} is given by dates and timestamps")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
#: The text form of values of these types in Python rows, because JSON has no types for them.
_WRITTEN: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "DATE": (re.compile(_DAY, re.ASCII), dt.date.fromisoformat),
    "TIMESTAMP": (
        re.compile(rf"{_DAY}([T ]{_TIME}(Z|[+-]\d{{2}}:\d{{2}})?)?", re.ASCII), dt.datetime.fromisoformat
    ),
    "DECIMAL": (re.compile(r"[+-]?\d{1,38}(\.\d{1,38})?", re.ASCII), Decimal),
}  # fmt: skip

#: No values of the types that Arrow infers: a mixture of moments and others crashes pyarrow, and so does a list that
#: contains itself or lies very deep.
_NEVER_PLAIN = (np.datetime64, np.timedelta64, list, tuple, dict, set, frozenset, np.ndarray)
#: The Arrow type for Python values of these types; Arrow infers the others.
_PYTHON = {"STRING": TEXT, "BINARY": BYTES, "BOOLEAN": pa.bool_(), "DOUBLE": pa.float64(), "FLOAT": pa.float64()}
