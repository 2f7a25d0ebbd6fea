"""Operations shared by the steps of all families: NULLs of several columns, text of a column, constants, subsets of
rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.errors import EvaluationError
from freshet.scalar.column import Column, take_text
from freshet.scalar.expression import Literal, Reference
from freshet.scalar.functions.registry import Columns, Node
from freshet.scalar.types import BINARY, TIME_RANGE, Type
from freshet.state.arrays import BYTES, TEXT, Bools, Int64s, one_text, values_of
from freshet.state.wide import split

#: The validity of rows without NULLs, in the form for kernels: one value for all rows.
ALL = np.ones(1, np.bool_)


def lane(data: Any) -> Int64s:
    """The form for kernels: contiguous and writable (a read-only array is a different type for numba)."""
    return data if data.flags.carray else np.array(data)


def both(a: Bools | None, b: Bools | None) -> Bools | None:
    if a is None:
        return b
    return a if b is None else a & b


def every(columns: Sequence[Column]) -> Bools | None:
    valid = None
    for c in columns:
        valid = both(valid, c.valid)
    return valid


def first_bad(bad: Bools, valid: Bools | None) -> int:
    """The first valid row among the bad ones, or -1."""
    if valid is not None:
        bad = bad & valid
    at = int(bad.argmax()) if bad.size else 0
    return at if bad.size and bad[at] else -1


def within_years(data: Int64s, valid: Bools | None, type: Type) -> Column:
    """Days or microseconds as a DATE or TIMESTAMP, which must be in the years 1 to 9999."""
    least, greatest = TIME_RANGE[type.name]
    bad = first_bad((data < least) | (data > greatest), valid)
    if bad >= 0:
        raise out_of_years(type, bad)
    return Column(type, data, valid)


def out_of_years(type: Type, row: int) -> EvaluationError:
    return EvaluationError(f"a {type} outside the years 1 to 9999; correct its input", row)


def truth(column: Column) -> Bools:
    """A BOOLEAN's data as a bool array."""
    data = column.data
    known: Bools = data if data.dtype == np.bool_ else data != 0
    return known


def text_of(column: Column) -> pa.Array:
    """The characters of a text column, or the bytes of a BINARY one; NULL rows are null in it if the column has ids."""
    if column.pool is None:
        return column.data
    return column.pool.text(column.data, column.valid, column.type.pooled)


def as_bytes(column: Column) -> Column:
    """Text as its UTF-8 bytes, bytes unchanged."""
    if column.pool is not None:
        return Column(BINARY, column.data, column.valid, pool=column.pool)
    return Column(BINARY, strings(column.data, BYTES), column.valid)


def text_or_null(a: Column, valid: Bools | None) -> pa.Array:
    """The same, but null where a row is not valid."""
    text = text_of(a)
    if valid is None:
        return text
    if len(text) == 1 != len(valid):
        text = take_text(text, np.zeros(len(valid), np.int64))
    return pc.if_else(pa.array(np.broadcast_to(valid, len(text))), text, pa.scalar(None, text.type))


def flags(array: pa.Array) -> Bools:
    """An Arrow boolean array in numpy; values of nulls are meaningless."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.null_count:
        array = pc.fill_null(array, False)
    bools: Bools = values_of(array)
    return bools


def strings(array: Any, kind: pa.DataType = TEXT) -> pa.Array:
    """One array of TEXT or BYTES, from any result of a compute function."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == kind else array.cast(kind)


def joined(*parts: Any, between: str = "", skip: bool = False, kind: pa.DataType = TEXT) -> pa.Array:
    """Concatenated texts, or bytes, those of arrays row by row; NULL where one is, unless NULLs are skipped."""
    same = [pa.scalar(p, TEXT).cast(kind) if isinstance(p, str) else p.cast(kind) for p in (*parts, between)]
    return pc.binary_join_element_wise(*same, null_handling="skip" if skip else "emit_null")


def constant(literal: Literal) -> Column:
    """A literal as a column of one value, which is for all rows."""
    value, t = literal.value, literal.type
    valid = np.zeros(1, np.bool_) if value is None else None
    if t.pooled:
        return Column(t, one_text(value, t.pooled), valid)
    if t.is_fraction:
        return Column(t, np.array([value if value is not None else 0.0], np.float64), valid)
    hi, lo = split(int(value or 0))
    return Column(t, np.array([lo], np.int64), valid, None if hi == lo >> 63 else np.array([hi], np.int64))


def constants(literals: Sequence[Literal]) -> Column:
    """Literals of one type as a column, one row each."""
    t, values = literals[0].type, [literal.value for literal in literals]
    valid = None if None not in values else np.array([v is not None for v in values], np.bool_)
    if t.pooled:
        return Column(t, pa.array(values, t.pooled), valid)
    if t.is_fraction:
        return Column(t, np.array([0.0 if v is None else v for v in values], np.float64), valid)
    try:
        return Column(t, np.array([v or 0 for v in values], np.int64), valid)
    except OverflowError:  # beyond one lane
        parts = [split(int(v or 0)) for v in values]
        hi, lo = (np.array(each, np.int64) for each in zip(*parts, strict=True))
        return Column(t, lo, valid, hi)


def scalar(column: Column) -> int | float | str | bytes | None:
    """The lane form of the only value of a column."""
    if column.valid is not None and not column.valid[0]:
        return None
    if column.type.pooled:
        value: str | bytes = text_of(column)[0].as_py()
        return value
    if column.type.is_fraction:
        return float(column.data[0])
    if column.hi is not None:
        return (int(column.hi[0]) << 64) + (int(column.data[0]) & 0xFFFFFFFFFFFFFFFF)
    return int(column.data[0])


def spread(column: Column, rows: int) -> Column:
    """One value for each row, expanded from a single value if necessary."""
    if len(column) == rows and (column.valid is None or len(column.valid) == rows):
        return column
    valid = column.valid
    if valid is not None and len(valid) != rows:
        valid = np.repeat(valid, rows)
    if len(column) == rows:
        return Column(column.type, column.data, valid, column.hi, column.pool)
    if isinstance(column.data, np.ndarray):
        data: Any = np.repeat(column.data, rows)
    else:
        data = take_text(column.data, np.zeros(rows, np.int64))
    return Column(column.type, data, valid, None if column.hi is None else np.repeat(column.hi, rows), column.pool)


def restricted(columns: Columns, rows: Int64s, total: int) -> Columns:
    """The same columns, only for the given rows."""
    taken: dict[int, Column] = {}

    def restrict(reference: Reference) -> Column:
        taken_rows = taken.get(id(reference))
        if taken_rows is None:
            column = columns(reference)
            taken_rows = taken[id(reference)] = column if len(column) != total else column.take(rows)
        return taken_rows

    return restrict


def on_rows(node: Node, columns: Columns, rows: Int64s, total: int) -> Column:
    """A node computed only for some rows; an error names the row in the whole batch."""
    if len(rows) == total:
        return node(columns, total)
    try:
        return node(restricted(columns, rows, total), len(rows))
    except EvaluationError as e:
        raise EvaluationError(e.reason, None if e.row is None else int(rows[e.row])) from None


def gather(type: Type, pieces: Sequence[tuple[Int64s, Column]], rows: int) -> Column:
    """One column of `rows` values from pieces, each with its rows; rows in no piece are NULL."""
    valid = np.zeros(rows, np.bool_)
    for where, piece in pieces:
        valid[where] = True if piece.valid is None else piece.valid
    known = None if valid.all() else valid
    if type.pooled:
        return _gather_text(type, pieces, rows, known)
    data = np.zeros(rows, np.float64 if type.is_fraction else np.int64)
    hi = np.zeros(rows, np.int64) if any(p.hi is not None for _, p in pieces) else None
    for where, piece in pieces:
        data[where] = piece.data
        if hi is not None:
            hi[where] = piece.hi if piece.hi is not None else piece.data >> 63
    return Column(type, data, known, hi)


def _gather_text(type: Type, pieces: Sequence[tuple[Int64s, Column]], rows: int, valid: Bools | None) -> Column:
    if not pieces:
        return Column(type, pa.nulls(rows, type.pooled), valid)
    pools = {id(p.pool) for _, p in pieces}
    if len(pools) == 1 and pieces[0][1].pool is not None:
        ids = np.zeros(rows, np.int64)
        for where, piece in pieces:
            ids[where] = piece.data
        return Column(type, ids, valid, pool=pieces[0][1].pool)
    source, base = np.zeros(rows, np.int64), 0
    for where, piece in pieces:
        source[where] = base if len(piece) == 1 else base + np.arange(len(piece))
        base += len(piece)
    whole = pa.concat_arrays([strings(text_of(p), type.pooled) for _, p in pieces])
    return Column(type, take_text(whole, source) if len(whole) else pa.nulls(rows, type.pooled), valid)


def each(function: Callable[..., Any], columns: Sequence[Column], rows: int, valid: Bools | None) -> list[Any]:
    """A function of Python values applied row by row to text and numbers; None if a value is NULL. It is for the rare
    arguments that no vectorized function takes. An error names its row."""
    values = [
        (text_of(c).to_pylist() if c.type.pooled else c.data.tolist()) * (rows if len(c) == 1 != rows else 1)
        for c in columns
    ]
    known = [True] * rows if valid is None else np.broadcast_to(valid, rows).tolist()
    out: list[Any] = []
    for row, (ok, *args) in enumerate(zip(known, *values, strict=True)):
        try:
            out.append(function(*args) if ok else None)
        except EvaluationError as e:
            raise EvaluationError(e.reason, row) from None
    return out


def longest(*columns: Column) -> int:
    """How many values a strict step returns: as many as the arguments that have one per row, or else one."""
    for c in columns:
        if len(c) != 1:
            return len(c)
        if c.valid is not None and len(c.valid) != 1:
            return len(c.valid)
    return 1
