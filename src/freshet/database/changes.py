"""Checks changes as users give them and resolves them against a table, before anything is changed.

Rows of any form are one Arrow batch (`intake`). The result is a `RowChange`: the slots to remove and the packed rows to
add. Every refusal is a ChangeError that names the table, the row (from 0), the problem and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.budget import hold
from freshet.database.change_type import (
    CHANGE_TYPE,
    WEIGHT,
    ChangeType,
    ChangeTypes,
    read_change_types,
    read_weights,
)
from freshet.database.intake import as_batch, check
from freshet.database.plain_rows import MOST_ROWS, PlainRows
from freshet.engine.table import MissingRowError, RepeatedKeyError, RowChange, Table
from freshet.errors import ChangeError, EvaluationError, brief
from freshet.logical.query import TableSchema
from freshet.scalar.arrow import check_lengths, from_arrow, to_arrow
from freshet.scalar.column import Column
from freshet.scalar.types import INTEGER_RANGE, TIME_RANGE, Type
from freshet.state.arena import Arena
from freshet.state.arrays import BYTES, TEXT, Bools, Int64s, is_text
from freshet.state.arrow_rows import CHARACTERS, LARGE, PART_COLUMNS, PLAIN, ReadRows, read_batch
from freshet.state.tuples import Slots, Tuples


@dataclass(frozen=True, slots=True)
class _Layout:
    """The role of each given column, recomputed only if rows have another form than the last ones."""

    schema: pa.Schema
    direct: Int64s | None  # how lanes are read, if every column is given in the form that lanes are read from
    given: tuple[tuple[int, int, int, Type], ...]  # place in the batch, column of the table, first lane, type
    absent: frozenset[int]
    weight: int | None
    change_type: int | None
    texts: tuple[tuple[int, int], ...]  # place in the batch and lane of each column of text
    long: tuple[int, ...]  # the places of those whose type can hold texts that are too long


@dataclass(slots=True)
class _Memo:
    """Cached readers of a table's changes: for plain rows, and for the form of the last batch."""

    plain: PlainRows
    layout: _Layout | None = None


def resolve(table: Table, schema: TableSchema, rows: Any) -> RowChange:
    """The change of the table by the given rows; if any row is invalid, all are refused."""
    memo: _Memo | None = table.memo
    if memo is None:
        memo = table.memo = _Memo(PlainRows(table, schema))
    if type(rows) is list and len(rows) <= MOST_ROWS:
        few = memo.plain.read(rows)
        if few is not None:
            return resolve_rows(table, schema, *few)
    batch = as_batch(schema, rows)
    hold(2 * batch.num_rows * table.width * 8)  # its rows as lanes, and those of them that are new
    layout = memo.layout
    if layout is None or not layout.schema.equals(batch.schema):
        layout = memo.layout = _layout(table, schema, batch.schema)
    read = _read(table, schema, layout, batch)
    if read is not None:
        return resolve_rows(table, schema, read.rows, read.weights, read.bases if len(table.plain_lanes) else None)
    arrays, n = batch.columns, batch.num_rows
    if layout.change_type is not None:
        kinds = read_change_types(arrays[layout.change_type], schema.name)
        return _Feed(table, schema, _columns(schema, layout, arrays, n), layout.absent, n).resolve(kinds, kinds.signs)
    weights = np.ones(n, np.int64) if layout.weight is None else read_weights(arrays[layout.weight], schema.name)
    if layout.absent and schema.primary_key and not (weights > 0).any():
        deletes = ChangeTypes.alike(ChangeType.DELETE, n)
        return _Feed(table, schema, _columns(schema, layout, arrays, n), layout.absent, n).resolve(deletes, weights)
    columns = _columns(schema, layout, arrays, n)
    _check_nulls(schema, columns, None)
    return resolve_rows(table, schema, pack_rows(table, columns, n), weights)


def _read(table: Table, schema: TableSchema, layout: _Layout, batch: pa.RecordBatch) -> ReadRows | None:
    """The rows of a batch, if their lanes can be read at once; None, and the batch is valid, if they cannot."""
    if layout.direct is None:
        check(schema, batch)
        return None
    weight = -1 if layout.weight is None else layout.weight
    for place in layout.long:
        _check_lengths(schema, batch, place)
    read = read_batch(batch, layout.direct, weight, table.width, trusted=False)
    if read is None:
        check(schema, batch)
        read = read_batch(batch, layout.direct, weight, table.width, trusted=True)
    if read is not None:
        for place, lane in layout.texts:
            if lane in table.text_lanes:
                read.rows[:, lane] = table.pool.intern(batch.column(place))
    return read


def _check_lengths(schema: TableSchema, batch: pa.RecordBatch, place: int) -> None:
    try:
        check_lengths(batch.column(place))
    except EvaluationError as e:
        raise ChangeError(f"{batch.schema.names[place]}: {e.reason}", schema.name, e.row) from None


def _layout(table: Table, schema: TableSchema, form: pa.Schema) -> _Layout:
    given, weight, change_type = {}, None, None
    positions, types = schema.positions(), form.types  # which Arrow makes anew each time
    for place, name in enumerate(form.names):
        column = positions.get(name.lower())
        if column is not None and column in given:
            raise ChangeError(f"column {name} is given twice; give it once", schema.name)
        if column is not None:
            given[column] = (place, column, table.lane_of(column)[0], schema.fields[column].type)
        elif (name == WEIGHT and weight is not None) or (name == CHANGE_TYPE and change_type is not None):
            raise ChangeError(f"column {name} is given twice; give it once", schema.name)
        elif name == WEIGHT:
            weight = place
        elif name == CHANGE_TYPE:
            change_type = place
        else:
            raise _unknown_column(schema, name)
    if weight is not None and change_type is not None:
        raise ChangeError(f"rows have both {WEIGHT} and {CHANGE_TYPE}; keep one", schema.name)
    absent = frozenset(range(len(schema.fields))) - given.keys()
    direct = not absent and change_type is None and (weight is None or types[weight] == pa.int64())
    direct = direct and all(_is_direct(types[place], type_) for place, _, _, type_ in given.values())
    parts = [
        (place, _DIRECT[t.name], lane, t.lanes, *_bounds(t), _form(types[place], table.is_plain(column)))
        for place, column, lane, t in given.values()
        if direct
    ]
    read = np.array(parts, np.int64).reshape(-1, PART_COLUMNS) if direct else None
    texts = tuple((place, lane) for place, _, lane, type_ in given.values() if type_.pooled)
    long = tuple(place for place, _ in texts if types[place] in (TEXT, BYTES))
    return _Layout(form, read, tuple(given.values()), absent, weight, change_type, texts, long)


def _is_direct(given: pa.DataType, type_: Type) -> bool:
    if type_.pooled and not type_.is_nested:
        return type_.length is None and given in (type_.to_arrow(), type_.pooled)
    return type_.name in _DIRECT and given == type_.to_arrow()


def _bounds(type_: Type) -> tuple[int, int]:
    """The range of valid values of one lane, among those that the Arrow type can hold."""
    if type_.name == "DECIMAL" and type_.lanes == 1:
        return 1 - 10**type_.precision, 10**type_.precision - 1
    return TIME_RANGE.get(type_.name, INTEGER_RANGE["BIGINT"])


def _form(given: pa.DataType, plain: bool) -> int:
    """What is known of texts of a type."""
    return LARGE * (given in (TEXT, BYTES)) + CHARACTERS * is_text(given) + PLAIN * plain


def pack_rows(table: Table, columns: Sequence[Column], n: int) -> Int64s:
    """Packs columns in declaration order into rows of the table."""
    return table.pack(columns, n)


def resolve_rows(
    table: Table, schema: TableSchema, rows: Int64s, weights: Int64s, bases: Int64s | None = None
) -> RowChange:
    """The change of the table by complete rows with signs; `bases`: of plain texts that are not in the table's heap."""
    try:
        return table.resolve(rows, weights, bases)
    except MissingRowError as e:
        raise refusal(table, schema, rows, e, bases) from None


def refusal(
    table: Table, schema: TableSchema, rows: Int64s, error: MissingRowError, bases: Int64s | None = None
) -> ChangeError:
    """The message for a change that a table has refused."""
    if isinstance(error, RepeatedKeyError):
        key = _show(table, schema, rows[error.row], schema.primary_key, bases)
        reason = f"a second row with primary key ({key}); remove the first, or send it as an upsert"
    else:
        row = _show(table, schema, rows[error.row], range(len(schema.fields)), bases)
        reason = f"removes a row the table does not hold ({row}); remove only what was inserted"
    return ChangeError(reason, schema.name, error.row)


class _Feed:
    """Rows of a change feed: deletes may give only the key, upserts replace the row with their key."""

    def __init__(self, table: Table, schema: TableSchema, columns: list[Column], absent: Set[int], n: int) -> None:
        self.table = table
        self.schema = schema
        self.columns = columns
        self.absent = absent
        self.n = n

    def resolve(self, kinds: ChangeTypes, signs: Int64s) -> RowChange:
        table, schema = self.table, self.schema
        upserts = kinds.are(ChangeType.UPSERT)
        if not schema.primary_key:
            if upserts.any():
                raise ChangeError(
                    "an upsert needs a primary key; declare one, or send a delete and an insert",
                    schema.name,
                    int(np.argmax(upserts)),
                )
            _check_nulls(schema, self.columns, None)
            return resolve_rows(table, schema, pack_rows(table, self.columns, self.n), signs)
        _check_nulls(schema, self.columns, signs > 0)
        rows = pack_rows(table, self.columns, self.n)
        replaced = self._replaced(rows, upserts) if upserts.any() else np.zeros(self.n, np.bool_)
        slots = table.tuples.find(rows)
        deletes = (signs < 0) & ~replaced
        rows = self._whole(rows, slots, deletes)
        parts, weights = [rows[~replaced]], [signs[~replaced]]
        numbers = [np.flatnonzero(~replaced)]
        if replaced.any():
            last = self._last(rows, replaced)
            old = last[slots[last] >= 0]
            parts += [table.tuples.lanes.data[slots[old]], rows[last[signs[last] > 0]]]
            weights += [np.full(len(old), -1, np.int64), np.ones(int((signs[last] > 0).sum()), np.int64)]
            numbers += [old, last[signs[last] > 0]]
        order = np.concatenate(numbers)
        try:
            return resolve_rows(table, schema, np.ascontiguousarray(np.concatenate(parts)), np.concatenate(weights))
        except ChangeError as e:
            raise ChangeError(e.reason, e.table, None if e.row is None else int(order[e.row])) from None

    def _keys(self, rows: Int64s) -> Slots:
        """A number for each row, the same for rows with the same key."""
        width = self.table.tuples.key_lanes
        return Tuples(Arena().scope("keys"), width).add(np.ascontiguousarray(rows[:, :width]))

    def _replaced(self, rows: Int64s, upserts: Bools) -> Bools:
        """Rows whose key also occurs in an upsert: the last one determines the result."""
        keys = self._keys(rows)
        return np.isin(keys, keys[upserts])

    def _last(self, rows: Int64s, replaced: Bools) -> Int64s:
        keys = self._keys(rows)
        last = np.full(int(keys.max()) + 1, -1, np.int64)
        at = np.flatnonzero(replaced)
        np.maximum.at(last, keys[at], at)
        return last[last >= 0]

    def _whole(self, rows: Int64s, slots: Slots, deletes: Bools) -> Int64s:
        """Completes deletes to the stored rows; values given in addition to the key must equal the stored ones."""
        table, schema = self.table, self.schema
        at = np.flatnonzero(deletes)
        missing = slots[at] < 0
        if missing.any():
            row = int(at[int(np.argmax(missing))])
            key = _show(table, schema, rows[row], schema.primary_key)
            reason = f"deletes primary key ({key}), which the table does not hold; delete only what was inserted"
            raise ChangeError(reason, schema.name, row)
        stored = table.tuples.lanes.data[slots[at]]
        for column, field in enumerate(schema.fields):
            if column in self.absent or column in schema.primary_key:
                continue
            first, _, _ = table.lane_of(column)
            valid = self.columns[column].valid
            given = np.ones(len(at), np.bool_) if valid is None else valid[at]
            differs = np.zeros(len(at), np.bool_)
            for lane in range(first, first + field.type.lanes):
                differs |= given & table.differ(rows[at], stored, lane)
            if differs.any():
                row = int(at[int(np.argmax(differs))])
                remedy = "give the stored value, or the key alone"
                reason = f"deletes a row whose {field.name} differs from the stored value; {remedy}"
                raise ChangeError(reason, schema.name, row)
        whole = rows.copy()
        whole[at] = stored
        return whole


# Checking ---------------------------------------------------------------------------------------------------------


def _columns(schema: TableSchema, layout: _Layout, arrays: Sequence[pa.Array], n: int) -> list[Column]:
    """Every column of the table; columns not given are NULL."""
    columns = [null_column(f.type, n) if i in layout.absent else None for i, f in enumerate(schema.fields)]
    for place, column, _, type_ in layout.given:
        try:
            columns[column] = from_arrow(arrays[place], type_)
        except EvaluationError as e:
            raise ChangeError(f"{schema.fields[column].name}: {e.reason}", schema.name, e.row) from None
    return [c for c in columns if c is not None]


def null_column(type_: Type, n: int) -> Column:
    valid = np.zeros(n, np.bool_)
    if type_.pooled:
        return Column(type_, pa.nulls(n, type_.pooled), valid)
    return Column(type_, np.zeros(n, np.float64 if type_.is_fraction else np.int64), valid)


def _check_nulls(schema: TableSchema, columns: Sequence[Column], where: Bools | None) -> None:
    """NULL only where the column allows it. Key columns are checked on every row, others where `where` says."""
    for i, (field, column) in enumerate(zip(schema.fields, columns, strict=True)):
        if field.nullable or column.valid is None:
            continue
        bad = ~column.valid
        if where is not None and i not in schema.primary_key:
            bad = bad & where
        if bad.any():
            what = "the primary key" if i in schema.primary_key else "NOT NULL"
            reason = f"{field.name} is NULL or missing, and it is {what}; give a value"
            raise ChangeError(reason, schema.name, int(np.argmax(bad)))


def _unknown_column(schema: TableSchema, name: str) -> ChangeError:
    near = get_close_matches(name, [f.name for f in schema.fields], 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return ChangeError(f"no column {name}{hint}; the table has {', '.join(f.name for f in schema.fields)}", schema.name)


def _show(table: Table, schema: TableSchema, row: Int64s, columns: Sequence[int], bases: Int64s | None = None) -> str:
    given = table.unpack(row.reshape(1, -1), bases)
    shown = [f"{schema.fields[i].name}={brief(to_arrow(given[i])[0].as_py())}" for i in columns]
    return ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")


#: Types whose Arrow buffer holds a column's lanes as they are, or as smaller integers, and the bytes of a value there.
_DIRECT = {
    "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "DATE": 4, "TIMESTAMP": 8, "DECIMAL": 16, "STRING": 0,
    "BINARY": 0,
}  # fmt: skip
