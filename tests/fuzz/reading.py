"""Reads of a view that is there: random filters, orders, limits and keys, by SQL with parameters and by look-up.

The view's answer is compared with the oracle elsewhere; here DuckDB asks the same questions of that answer, and rows
looked up are those that a plain loop finds in it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

import freshet
from freshet.database import grouped, one_off
from freshet.database.db import inside
from tests.fuzz.choices import Choices
from tests.oracle import oracle_connection, same_bag

COMPARED = ("=", "=", "=", "<", ">=", "<>")


@contextmanager
def handing_over() -> Iterator[None]:
    """Queries go to DuckDB wherever it is known to agree, however few rows they read, and no rows are grouped in a
    scan."""
    large, most = one_off.LARGE, grouped.MOST_GROUPED
    one_off.LARGE, grouped.MOST_GROUPED = 0, -1
    try:
        yield
    finally:
        one_off.LARGE, grouped.MOST_GROUPED = large, most


def index(choices: Choices, db: freshet.Database) -> None:
    """Declares an index on some columns of the view, if it has any that can have one."""
    names = [f.name for f in db.view("v").schema if not pa.types.is_list(f.type)]
    if names:
        chosen = {choices.pick(names) for _ in range(1 + choices.below(2))}
        db.execute(f"CREATE INDEX i ON v ({', '.join(_quoted(n, '`') for n in sorted(chosen))})")


def check_reads(choices: Choices, db: freshet.Database, answer: pa.Table) -> None:
    names = [f.name for f in answer.schema if not pa.types.is_list(f.type)]
    for _ in range(1 + choices.below(3)):
        if names:
            _check_query(choices, db, answer, names)
    _check_look_ups(choices, db, answer)


def _check_query(choices: Choices, db: freshet.Database, answer: pa.Table, names: list[str]) -> None:
    shown = [choices.pick(names) for _ in range(1 + choices.below(3))]
    tests, values = [], list[Any]()
    for _ in range(choices.below(3)):
        name = choices.pick(names)
        value = _value(choices, answer, name)
        if value is None or value != value:
            tests.append((name, "IS NULL" if choices.chance(50) else "IS NOT NULL"))
        else:
            tests.append((name, f"{choices.pick(COMPARED)} ?"))
            values.append(value)
    limit = choices.below(4) if choices.chance(40) else None
    ordered = choices.chance(60)

    def written(mark: str) -> str:
        outputs = ", ".join(f"{_quoted(n, mark)} AS c{i}" for i, n in enumerate(shown))
        where = " AND ".join(f"{_quoted(n, mark)} {test}" for n, test in tests)
        order = ", ".join(f"c{i} NULLS FIRST" for i in range(len(shown)))
        return (
            f"SELECT {outputs} FROM v"
            + (f" WHERE {where}" if where else "")
            + (f" ORDER BY {order}" if ordered else "")
            + (f" LIMIT {limit}" if limit is not None else "")
        )

    read = db.query(written("`"), values)
    if limit is not None and not ordered:
        rows, limit = limit, None
        whole = _rows(_asked(written('"'), values, answer))
        assert read.num_rows == min(rows, len(whole)) and not Counter(_rows(read)) - Counter(whole), read
        return
    expected = _asked(written('"'), values, answer)
    same_bag(read, expected)
    if ordered:
        assert _rows(read) == _rows(expected), f"{written('`')} with {values}: {_rows(read)}, not {_rows(expected)}"


def _asked(sql: str, values: list[Any], answer: pa.Table) -> pa.Table:
    connection = oracle_connection()
    connection.register("v", answer)
    try:
        return connection.execute(sql, values).to_arrow_table()
    except duckdb.Error:
        oracle_connection.cache_clear()
        raise
    finally:
        connection.unregister("v")


def _check_look_ups(choices: Choices, db: freshet.Database, answer: pa.Table) -> None:
    view, rows = db.view("v"), answer.to_pylist()
    for finder in inside(view).operator.finders():
        by = [answer.schema.names[c] for c in finder.columns]
        if any(pa.types.is_list(answer.schema.field(name).type) for name in by):
            continue
        key = tuple(choices.pick(rows)[n] for n in by) if rows and choices.chance(70) else None
        key = key or tuple(_value(choices, answer, n) for n in by)
        expected = [row for row in rows if all(_same(row[n], v) for n, v in zip(by, key, strict=True))]
        matches = view.find(key, by=by)
        shown = [_row(row.values()) for row in matches]
        assert Counter(shown) == Counter(_row(row.values()) for row in expected), f"{by} = {key}: {matches}"
        assert not finder.unique or len(matches) < 2


def _value(choices: Choices, answer: pa.Table, name: str) -> Any:
    """One that the column has, mostly."""
    column = answer.column(name)
    if answer.num_rows == 0:
        return None
    return column[choices.below(answer.num_rows)].as_py()


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or (one is None and other is None) or (one != one and other != other))


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [_row(row.values()) for row in table.to_pylist()]


def _row(values: Any) -> tuple[Any, ...]:
    return tuple("NaN" if v != v else tuple(v) if isinstance(v, list) else v for v in values)


def _quoted(name: str, mark: str) -> str:
    return mark + name.replace(mark, 2 * mark) + mark


def seen_by_others(view: freshet.View) -> pa.Table:
    """The answer as another thread reads it."""
    answers: list[pa.Table] = []
    other = threading.Thread(target=lambda: answers.append(view.to_arrow()))
    other.start()
    other.join()
    return answers[0]
