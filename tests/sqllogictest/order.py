"""The order a query asks for, given back to the rows of its view, which is a bag: a record may hash values in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlglot
from sqlglot import exp

Row = tuple[Any, ...]


def in_order(sql: str, rows: list[Row], names: Sequence[str]) -> tuple[list[Row], bool]:
    """The rows as ORDER BY has them, and whether it decides the order of all of them."""
    clause = sqlglot.parse_one(sql, dialect="spark").args.get("order")
    keys = (
        []
        if clause is None
        else [(_place(item.this, names), bool(item.args.get("desc"))) for item in clause.expressions]
    )
    if any(place is None for place, _ in keys):
        return rows, False
    for place, down in reversed(keys):
        rows = sorted(rows, key=lambda row: _sortable(row[place or 0]), reverse=down)
    seen = [tuple(row[place or 0] for place, _ in keys) for row in rows]
    ties = any(a == b and one != other for a, b, one, other in zip(seen, seen[1:], rows, rows[1:], strict=False))
    return rows, not ties


def _place(item: exp.Expr, names: Sequence[str]) -> int | None:
    if isinstance(item, exp.Literal) and item.is_int and 1 <= int(item.name) <= len(names):
        return int(item.name) - 1
    if isinstance(item, exp.Column) and item.name in names:
        return list(names).index(item.name)
    return None


def _sortable(value: Any) -> tuple[int, Any]:
    """NULLs first, as the format's own engine has them."""
    return (0, 0) if value is None else (1, value)
