"""Answers in the format of sqllogictest, and their comparison. Views are bags, so rows are compared in sorted order
whatever the record says. Numbers are compared as numbers, to the three decimals that the format has for a real.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

from tests.sqllogictest.records import Query

Row = tuple[str, ...]


def written(value: Any, letter: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value)) if letter == "I" else str(value).lower()
    if letter == "I" and not isinstance(value, str):
        return str(int(value))
    if letter == "R" and not isinstance(value, str):
        return f"{float(value):.3f}"
    text = str(value)
    return "".join(c if " " <= c <= "~" else "@" for c in text) if text else "(empty)"


def difference(query: Query, rows: Sequence[Sequence[Any]]) -> str | None:
    """The error in an answer; None if it is correct."""
    width = max(len(query.types), 1)
    actual = [tuple(written(v, t) for v, t in zip(row, query.types, strict=False)) for row in rows]
    if any(len(row) != width for row in rows):
        return f"{len(rows[0])} columns, expected {width}"
    if query.hashed is not None:
        return _hash_difference(query, actual)
    expected = [query.values[i : i + width] for i in range(0, len(query.values), width)]
    if query.sort == "valuesort":
        return _compared([(v,) for row in actual for v in row], [(v,) for row in expected for v in row])
    return _compared(actual, [tuple(row) for row in expected])


def _compared(actual: list[Row], expected: list[Row]) -> str | None:
    if len(actual) != len(expected):
        return f"{len(actual)} rows, expected {len(expected)}"
    for mine, theirs in zip(sorted(actual, key=_sortable), sorted(expected, key=_sortable), strict=True):
        if not all(map(_same, mine, theirs)):
            return f"{' '.join(mine)}, expected {' '.join(theirs)}"
    return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _sortable(row: Row) -> list[tuple[int, float, str]]:
    numbers = [(_number(v), v) for v in row]
    return [(1, 0.0, v) if n is None else (0, round(n, 2), "") for n, v in numbers]


def _same(mine: str, theirs: str) -> bool:
    if mine == theirs:
        return True
    a, b = _number(mine), _number(theirs)
    if a is None or b is None:
        return {mine, theirs} in ({"true", "1"}, {"false", "0"})
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=2e-3)


def _hash_difference(query: Query, actual: list[Row]) -> str | None:
    """Values hashed in the order that a record without ORDER BY names; a hash in the query's own order cannot be
    compared."""
    assert query.hashed is not None
    count, wanted = query.hashed
    values = [v for row in (sorted(actual) if query.sort == "rowsort" else actual) for v in row]
    if query.sort == "valuesort":
        values.sort()
    if len(values) != count:
        return f"{len(values)} values, expected {count}"
    got = hashlib.md5("".join(v + "\n" for v in values).encode()).hexdigest()
    return None if got == wanted else f"values hash to {got}, expected {wanted}"
