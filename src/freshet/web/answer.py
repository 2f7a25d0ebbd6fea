"""An answer as the page shows it: a window of rows, sorted, filtered and cut on the server.

Whatever the size of the answer, no more than a window travels, and no more than MOST_ROWS are looked at: beyond that
the window is over the first rows as they are enumerated, and says so.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from freshet.errors import FreshetError
from freshet.plans.model import AnyPlan, QueryPlan, SortPlan, TopPlan
from freshet.sql.bound import GROUP
from freshet.sql.expression import ColumnRef

MOST_ROWS = 500_000
PAGE = 500


@dataclass(frozen=True, slots=True)
class Window:
    """What of an answer somebody looks at."""

    sort: str | None = None
    descending: bool = False
    filter: str = ""
    page: int = 0
    size: int = 50

    @classmethod
    def of(cls, given: dict[str, Any]) -> Window:
        """From a message, with what does not fit brought into bounds."""
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
class Shown:
    rows: list[list[str | None]]
    matching: int
    page: int


def show(answer: pa.Table, window: Window) -> Shown:
    found = _filtered(answer, window.filter)
    if window.sort in found.column_names:
        order = "descending" if window.descending else "ascending"
        others = [c for c in found.column_names if c != window.sort]
        found = found.take(pc.sort_indices(found, [(window.sort, order), *((c, "ascending") for c in others)]))
    last = max(0, (found.num_rows - 1) // window.size)
    page = min(window.page, last)
    part = found.slice(page * window.size, window.size)
    columns = [texts(c) for c in part.columns]
    return Shown([list(row) for row in zip(*columns, strict=True)], found.num_rows, page)


def texts(column: pa.ChunkedArray) -> list[str | None]:
    """Values as people read them."""
    return [None if v is None else _text(v) for v in column.to_pylist()]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _filtered(answer: pa.Table, wanted: str) -> pa.Table:
    """Rows in which some value, as text, contains what is wanted."""
    if not wanted.strip() or not answer.num_rows:
        return answer
    keep: Any = None
    for column in answer.columns:
        text = column if pa.types.is_string(column.type) else column.cast(pa.string())
        found = pc.fill_null(pc.match_substring(text, wanted.strip(), ignore_case=True), False)
        keep = found if keep is None else pc.or_(keep, found)
    return answer.filter(keep)


def keys_of(plan: AnyPlan) -> list[int]:
    """The columns by which a row stays the same row while its values change: the keys of GROUP BY. None: all."""
    if isinstance(plan, (TopPlan, SortPlan)):
        below = keys_of(plan.source)
        return below if all(i < len(plan.fields) for i in below) else []
    if not isinstance(plan, QueryPlan) or plan.grouping is None:
        return []
    keys = len(plan.grouping.keys)
    shown = ((i, o) for i, o in enumerate(plan.outputs) if isinstance(o, ColumnRef) and o.relation == GROUP)
    found = {o.column: i for i, o in shown if o.column < keys}
    return sorted(found.values()) if len(found) == keys else []


def measures_of(plan: AnyPlan) -> list[int]:
    """The columns a chart can show: the numbers of groups, and of rows that are no groups, what is no plain integer."""
    keys, grouped = keys_of(plan), is_grouped(plan)
    return [
        i for i, f in enumerate(plan.fields)
        if f.type.is_numeric and i not in keys and (grouped or not f.type.is_integer)
    ]  # fmt: skip


def is_grouped(plan: AnyPlan) -> bool:
    return (
        is_grouped(plan.source)
        if isinstance(plan, (TopPlan, SortPlan))
        else isinstance(plan, QueryPlan) and plan.grouping is not None
    )


def groups_of(plan: AnyPlan) -> list[int]:
    """The columns that name a line of the chart."""
    measures = measures_of(plan)
    return keys_of(plan) if is_grouped(plan) else [i for i in range(len(plan.fields)) if i not in measures]


def download(answer: pa.Table, form: str) -> tuple[bytes, str]:
    """The answer as a file, and its media type."""
    out = io.BytesIO()
    if form == "parquet":
        pq.write_table(answer, out)
        return out.getvalue(), "application/vnd.apache.parquet"
    if form == "csv":
        plain = [c.cast(pa.string()) if pa.types.is_decimal(c.type) else c for c in answer.columns]
        pacsv.write_csv(pa.table(plain, answer.column_names), out)
        return out.getvalue(), "text/csv; charset=utf-8"
    raise FreshetError(f"no format {form}; there are csv and parquet")


def delta_rows(delta: pa.Table, most: int) -> Iterator[tuple[int, list[str | None]]]:
    """The first changes of a delta: weight and values."""
    part = delta.slice(0, most)
    weights = part.column("_weight").to_pylist()
    columns = [texts(part.column(c)) for c in part.column_names if c != "_weight"]
    yield from zip(weights, map(list, zip(*columns, strict=True)), strict=True)
