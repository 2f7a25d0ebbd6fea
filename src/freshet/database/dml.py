"""What INSERT, UPDATE and DELETE change: the rows they add, and the slots they touch with their new rows.

No table is changed here. Text of new rows is added to the pool; if a statement fails, it is removed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.changes import null_column, pack_rows, resolve_rows
from freshet.engine.table import RowChange, Table
from freshet.errors import ChangeError, EvaluationError, FreshetError
from freshet.logical.query import TableSchema
from freshet.logical.statements import Delete, Insert, Update
from freshet.scalar.arrow import to_arrow
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, evaluate_filter
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.functions.rows import constants
from freshet.scalar.types import Type
from freshet.state.tuples import Slots


def inserted(statement: Insert, schema: TableSchema) -> pa.Table:
    """The rows of INSERT ... VALUES, as changes."""
    names = [schema.fields[i].name for i in statement.columns]
    types = [schema.fields[i].type for i in statement.columns]
    rows = statement.rows or ()
    return pa.table([_written([row[i] for row in rows], t) for i, t in enumerate(types)], names)


def _written(values: Sequence[Expression], kind: Type) -> pa.Array:
    """Constants as an array."""
    literals = [v for v in values if isinstance(v, Literal)]
    if len(literals) == len(values) and len({v.type for v in literals}) == 1:
        return to_arrow(constants(literals)).cast(kind.to_arrow())
    return pa.concat_arrays([to_arrow(_constant(v)).cast(kind.to_arrow()) for v in values])


def deleted(statement: Delete, table: Table) -> RowChange:
    slots = _matching(table, statement.table, statement.where)
    return RowChange(slots, np.empty((0, table.width), np.int64), np.empty(0, np.int64))


def updated(statement: Update, schema: TableSchema, table: Table) -> RowChange:
    slots = _matching(table, statement.table, statement.where)
    columns = table.columns(slots)
    mark, end = table.pool.mark(), table.mark()
    try:
        for position, value in zip(statement.columns, statement.values, strict=True):
            columns[position] = _assigned(schema, position, evaluate(value, table.reader(slots), len(slots)))
        new = pack_rows(table, columns, len(slots))
        old = table.tuples.lanes.data[slots]  # after packing, which may have interned columns
        copies = np.ones(len(slots), np.int64) if table.weights is None else table.weights.data[slots]
        return resolve_rows(table, schema, np.concatenate([old, new]), np.concatenate([-copies, copies]))
    except EvaluationError as e:
        table.pool.undo(mark)
        table.undo(end)
        raise ChangeError(e.reason, statement.table) from None
    except FreshetError:
        table.pool.undo(mark)
        table.undo(end)
        raise


def replaced(statement: Delete | Update, schema: TableSchema, matches: pa.Table) -> pa.Table:
    """The changes of a statement with subqueries: matching rows are deleted, and for UPDATE inserted with new
    values."""
    names, width = [*(f.name for f in schema.fields), "_weight"], len(schema.fields)
    old = matches.columns[:width]
    gone = pa.table([*old, pa.repeat(-1, len(matches))], names)
    if isinstance(statement, Delete):
        return gone
    new = dict(zip(statement.columns, matches.columns[width:], strict=True))
    come = pa.table([*(new.get(i, column) for i, column in enumerate(old)), pa.repeat(1, len(matches))], names)
    return pa.concat_tables([gone, come])


def _constant(expression: Any) -> Column:
    try:
        return evaluate(expression, _no_columns, 1)
    except EvaluationError as e:
        raise ChangeError(e.reason) from None


def _no_columns(column: Any) -> Column:
    raise AssertionError(f"{column} in a constant")


def _matching(table: Table, name: str, where: Any) -> Slots:
    slots = table.tuples.slots()
    if where is None:
        return slots
    try:
        return slots[evaluate_filter((where,), table.reader(slots), len(slots))]
    except EvaluationError as e:
        raise ChangeError(e.reason, name) from None


def _assigned(schema: TableSchema, position: int, column: Column) -> Column:
    field = schema.fields[position]
    if column.type.name == "VOID":
        column = null_column(field.type, len(column))
    if not field.nullable and column.valid is not None and not column.valid.all():
        raise ChangeError(f"{field.name} would be NULL, but it is NOT NULL; give a value", schema.name)
    return replace(column, type=field.type)
