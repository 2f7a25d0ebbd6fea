"""An answer as the page shows it: a window of rows, sorted, filtered and cut on the server.

Whatever the size of the answer, only a window of it is sent, and at most MOST_ROWS or MOST_BYTES are read: beyond that
the window covers the first rows enumerated, and says so. Columns are identified by position, so names may repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.budget import look
from freshet.plans.model import AnyPlan, QueryPlan, SortPlan, TopPlan
from freshet.scalar.arrow import from_arrow
from freshet.scalar.expression import GroupRef
from freshet.scalar.functions.interval_texts import written
from freshet.scalar.hexadecimal import shown
from freshet.scalar.lists import join_texts
from freshet.scalar.types import MICROS
from freshet.state.arrays import is_bytes

MOST_ROWS = 500_000
MOST_BYTES = 128 << 20
PAGE = 500
CELLS = 25_000  # values in a window, at most
CELL = 400  # characters of a value that are shown
_TIES = 8  # columns that break ties of the chosen one


@dataclass(frozen=True, slots=True)
class Window:
    """The part of an answer that a page shows."""

    sort: str | None = None
    descending: bool = False
    filter: str = ""
    page: int = 0
    size: int = 50

    @classmethod
    def of(cls, given: dict[str, Any]) -> Window:
        """From a message; values out of bounds are clamped."""
        size = given.get("size")
        page = given.get("page")
        return cls(
            str(given["sort"]) if given.get("sort") else None,
            bool(given.get("descending")),
            str(given.get("filter") or "")[:200].encode(errors="replace").decode(),
            max(0, page) if isinstance(page, int) else 0,
            min(max(1, size), PAGE) if isinstance(size, int) else 50,
        )


@dataclass(frozen=True, slots=True)
class ShownRows:
    rows: list[list[str | None]]
    matching: int
    page: int
    size: int  # rows a page


def chosen(answer: pa.Table, window: Window) -> pa.Table:
    """The rows that pass the filter, sorted."""
    names = answer.column_names
    column = names.index(window.sort) if window.sort in names else None
    return _sorted(_filtered(answer, window.filter), column, window.descending)


def show(answer: pa.Table, window: Window) -> ShownRows:
    names, rows = answer.column_names, chosen(answer, window)
    size = min(window.size, max(1, CELLS // max(1, len(names))))
    last = max(0, (rows.num_rows - 1) // size)
    page = min(window.page, last)
    part = rows.slice(page * size, size)
    columns = [texts(c) for c in part.columns]
    return ShownRows([list(row) for row in zip(*columns, strict=True)], rows.num_rows, page, size)


def _sorted(rows: pa.Table, column: int | None, descending: bool) -> pa.Table:
    """Sorts by one column, lists by their text; ties by the columns from left to right."""
    if column is None or not rows.num_rows:
        return rows
    keys = [column, *(i for i in range(rows.num_columns) if i != column)][:_TIES]
    part = {str(i): _comparable(rows.column(i)) for i in keys}
    order = [(str(i), "descending" if descending and i == column else "ascending") for i in keys]
    look()
    return rows.take(pc.sort_indices(pa.table(part), order))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    return as_text(column) if pa.types.is_nested(kind) or pa.types.is_null(kind) else column


def _filtered(answer: pa.Table, wanted: str) -> pa.Table:
    """Rows in which some value contains the filter as text."""
    if not wanted.strip() or not answer.num_rows:
        return answer
    parts = []
    for batch in answer.to_batches():
        keep = np.zeros(batch.num_rows, np.bool_)
        for column in batch.columns:
            look()
            holds = pc.match_substring(_text_array(column), wanted.strip(), ignore_case=True)
            keep |= pc.fill_null(holds, False).to_numpy(zero_copy_only=False)
        parts.append(batch.filter(pa.array(keep)))
    return pa.Table.from_batches(parts, answer.schema)


# Values as text ---------------------------------------------------------------------------------------------------


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Every value as one text, whatever its type; NULL stays NULL."""
    return pa.chunked_array([_text_array(c) for c in column.chunks], pa.string())


def _text_array(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type):
        return array
    if is_bytes(array.type):
        return pa.array([None if v is None else shown(v) for v in array.to_pylist()], pa.string())
    if pa.types.is_duration(array.type):
        return _masked(written(from_arrow(array, MICROS)), array)
    if pa.types.is_struct(array.type) or pa.types.is_map(array.type):
        return _texts_of_fields(array)
    if not pa.types.is_list(array.type):
        return array.cast(pa.string())
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    values = _text_array(array.flatten()).fill_null("NULL")
    listed = join_texts(values, sizes, ", ").cast(pa.string())
    return _masked(pc.binary_join_element_wise("[", listed, "]", ""), array)


def _texts_of_fields(array: pa.Array) -> pa.Array:
    """{a: 1, b: x} for a struct, {k -> 1} for a map."""
    if pa.types.is_struct(array.type):
        names = [f.name for f in array.type]
        parts = [_text_array(part).fill_null("NULL") for part in array.flatten()]
        fields = [pc.binary_join_element_wise(n, p, ": ") for n, p in zip(names, parts, strict=True)]
        if not fields:
            return _masked(pa.repeat("{}", len(array)).cast(pa.string()), array)
        return _masked(pc.binary_join_element_wise("{", pc.binary_join_element_wise(*fields, ", "), "}", ""), array)
    keys, values = (_text_array(part).fill_null("NULL") for part in (array.keys, array.items))
    entries = pc.binary_join_element_wise(keys, values, " -> ")
    kind = pa.list_(pa.string())
    lists = pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[entries])
    return _masked(pc.binary_join_element_wise("{", pc.binary_join(lists, ", "), "}", ""), array)


def _masked(texts: pa.Array, array: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))


def texts(column: pa.ChunkedArray) -> list[str | None]:
    """Values in readable form, long ones truncated."""
    if pa.types.is_nested(column.type) or pa.types.is_duration(column.type):
        column = as_text(column)
    if pa.types.is_string(column.type):
        column = pc.utf8_slice_codeunits(column, 0, CELL + 1)
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):  # dates that Python cannot represent
        values = as_text(column).to_pylist()
    return [None if v is None else _text(v) for v in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return shown(value) if 3 * len(value) < CELL else shown(value[: CELL // 3]) + "…"
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    return text if len(text) <= CELL else text[:CELL] + "…"


def delta_rows(delta: pa.Table, most: int) -> Iterator[tuple[int, list[str | None]]]:
    """The first changes of a delta: weight and values."""
    *columns, weights = delta.slice(0, most).columns
    yield from zip(weights.to_pylist(), map(list, zip(*map(texts, columns), strict=True)), strict=True)


# Roles of columns -------------------------------------------------------------------------------------------------


def keys_of(plan: AnyPlan) -> list[int]:
    """The columns that identify a row while its other values change: the keys of GROUP BY. None: all columns."""
    if isinstance(plan, (TopPlan, SortPlan)):
        below = keys_of(plan.source)
        return below if all(i < len(plan.fields) for i in below) else []
    if isinstance(plan, QueryPlan) and plan.key:
        return sorted(plan.key)
    if not isinstance(plan, QueryPlan) or plan.grouping is None:
        return []
    keys = len(plan.grouping.keys)
    shown = ((i, o) for i, o in enumerate(plan.outputs) if isinstance(o, GroupRef))
    key_outputs = {o.column: i for i, o in shown if o.column < keys}
    return sorted(key_outputs.values()) if len(key_outputs) == keys else []


def measures_of(plan: AnyPlan) -> list[int]:
    """The columns a chart can show: numeric columns; if rows are not groups, integers are left out."""
    keys, grouped = keys_of(plan), is_grouped(plan)
    return [
        i for i, f in enumerate(plan.fields)
        if f.type.is_numeric and i not in keys and (grouped or not f.type.is_integer)
    ]  # fmt: skip


def is_grouped(plan: AnyPlan) -> bool:
    return (
        is_grouped(plan.source)
        if isinstance(plan, (TopPlan, SortPlan))
        else isinstance(plan, QueryPlan) and (plan.grouping is not None or bool(plan.key))
    )


def groups_of(plan: AnyPlan) -> list[int]:
    """The columns that name a line of the chart."""
    measures = measures_of(plan)
    return keys_of(plan) if is_grouped(plan) else [i for i in range(len(plan.fields)) if i not in measures]
