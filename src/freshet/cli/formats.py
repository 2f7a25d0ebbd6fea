"""Answers as text: a table for people, and CSV, lines of JSON and Markdown for other programs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from freshet.cli.results import plain
from freshet.scalar.hexadecimal import shown as shown_bytes

FORMATS = ("table", "csv", "json", "markdown")


def as_objects(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as objects."""
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def cell(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(cell(v) if isinstance(v, bytes) else repr(v) for v in value)}]"
    return "NULL" if value is None else shown_bytes(value) if isinstance(value, bytes) else str(value)


def grid(names: list[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """A table with column names, each column as wide as needed."""
    cells = [names, *([cell(v) for v in row] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    for i, line in enumerate(cells):
        yield "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
        if i == 0:
            yield "  ".join("─" * w for w in widths)


def written(table: pa.Table, form: str) -> Iterator[str]:
    """All rows of an answer, line by line."""
    if form == "json":
        for each in as_objects(table):
            yield json.dumps(plain(each), ensure_ascii=False)
    elif form == "csv":
        out = io.BytesIO()
        pacsv.write_csv(for_csv(table), out)
        yield out.getvalue().decode().removesuffix("\n")
    elif form == "markdown":
        names = [_in_cell(name) for name in table.column_names]
        yield f"| {' | '.join(names)} |"
        yield f"|{'|'.join(' --- ' for _ in names)}|"
        for row in _rows(table):
            yield f"| {' | '.join(_in_cell(cell(v)) for v in row)} |"
    else:
        yield from grid(table.column_names, _rows(table))


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _in_cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\r", " ").replace("\n", "<br>")


def for_csv(table: pa.Table) -> pa.Table:
    """The table, in which values without a form in CSV (lists, intervals, bytes that are not UTF-8) are texts as the
    prompt shows them."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind):
            texts = [None if v is None else cell(v) for v in column.to_pylist()]
            column = pa.chunked_array([pa.array(texts, pa.string())])
        elif pa.types.is_decimal(kind):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=table.column_names)
