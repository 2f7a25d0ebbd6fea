"""ARRAY_AGG, COLLECT_LIST, COLLECT_SET and STRING_AGG: NULLs are left out, and values are ascending if the query names
no order."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from tests.small_tables import follow, two_tables

#: The query for Freshet, and for DuckDB, which keeps NULLs and returns NULL instead of an empty list.
CALLS = (
    ("ARRAY_AGG(c)", "COALESCE(LIST(c ORDER BY c) FILTER (c IS NOT NULL), [])"),
    ("COLLECT_LIST(b)", "COALESCE(LIST(b ORDER BY b) FILTER (b IS NOT NULL), [])"),
    ("COLLECT_SET(c)", "COALESCE(LIST(DISTINCT c ORDER BY c) FILTER (c IS NOT NULL), [])"),
    ("ARRAY_AGG(c) FILTER (WHERE b > 0)", "COALESCE(LIST(c ORDER BY c) FILTER (c IS NOT NULL AND b > 0), [])"),
    ("STRING_AGG(CAST(c AS STRING), '-')", "STRING_AGG(CAST(c AS STRING), '-' ORDER BY c)"),
    (
        "STRING_AGG(DISTINCT CAST(c AS STRING), '')",
        "STRING_AGG(DISTINCT CAST(c AS STRING), '' ORDER BY CAST(c AS STRING))",
    ),
    (
        "LISTAGG(CAST(c AS STRING), ', ') WITHIN GROUP (ORDER BY b DESC, c)",
        "STRING_AGG(CAST(c AS STRING), ', ' ORDER BY b DESC NULLS LAST, c NULLS FIRST)",
    ),
    ("ARRAY_AGG(c ORDER BY b, c)", "COALESCE(LIST(c ORDER BY b NULLS FIRST, c) FILTER (c IS NOT NULL), [])"),
)


@given(st.data())
def test_lists_agree_with_duckdb(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3))
    key = data.draw(st.sampled_from(("a", "b", None)))
    source = data.draw(st.sampled_from(("t0", "(SELECT r.a, s.b, s.c FROM t0 r LEFT JOIN t1 s ON r.b = s.b) u")))

    def text(side: int) -> str:
        calls = ", ".join(f"{call[side]} AS m{i}" for i, call in enumerate(chosen))
        if key is None:
            return f"SELECT {calls}, COUNT(c) AS n FROM {source}"
        return f"SELECT {key} AS k, {calls}, SUM(c) AS n FROM {source} GROUP BY {key}"

    follow(data, two_tables(data), text(0), text(1))


def test_lists_of_every_type_outlive_a_restart(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"i": 2, "w": Decimal("9999999999999999999.25"), "x": 0.1, "s": "b\x1f\x1b", "d": datetime.date(2024, 2, 29)},
        {"i": -1, "w": Decimal("-0.50"), "x": 1e300, "s": "", "d": datetime.date(1969, 12, 31)},
    ]
    with freshet.connect(str(tmp_path)) as db:
        db.execute("CREATE TABLE t (i INT, w DECIMAL(30,2), x DOUBLE, s STRING, d DATE)")
        calls = ", ".join(f"ARRAY_AGG({c}) AS {c}" for c in ("i", "w", "x", "s", "d"))
        db.create_view("v", f"SELECT {calls}, ARRAY_AGG(i > 0) AS b FROM t")
        db.apply({"t": rows[:1]})
    with freshet.connect(str(tmp_path)) as db:
        delta = db.apply({"t": rows[1:]}).deltas["v"]
        wanted = {c: sorted(row[c] for row in rows) for c in ("i", "w", "x", "s", "d")}
        assert db.view("v").to_arrow().to_pylist() == [{**wanted, "b": [False, True]}]
        assert sorted(delta.column("_weight").to_pylist()) == [-1, 1]
        db.execute("DELETE FROM t")
        assert db.view("v").to_arrow().to_pylist()[0]["s"] == []


def test_arrays_pass_through_other_queries() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b STRING)")
    db.create_view("g", "SELECT a, ARRAY_AGG(b) AS bs FROM t GROUP BY a")
    same = db.create_view("same", "SELECT bs, COUNT(*) AS n FROM g GROUP BY bs")
    union = db.create_view("both", "SELECT bs FROM g UNION SELECT bs FROM g")
    db.execute("INSERT INTO t VALUES (1, 'x'), (1, 'y'), (2, 'y'), (2, 'x'), (3, NULL)")
    assert sorted(same.to_arrow().to_pylist(), key=repr) == [{"bs": ["x", "y"], "n": 2}, {"bs": [], "n": 1}]
    assert union.count() == 2


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT UPPER(bs) AS u FROM g", "no function UPPER(ARRAY<STRING>)"),
        ("SELECT bs FROM g WHERE bs = 1", "no operator ARRAY<STRING> = INT"),
        ("SELECT SUM(bs) AS m FROM g", "no aggregate SUM(ARRAY<STRING>)"),
        ("SELECT CAST(bs AS INT) AS s FROM g", "ARRAY<STRING> cannot be cast"),
        ("SELECT STRING_AGG(bs, '') AS b FROM g", "STRING_AGG of ARRAY<STRING> values"),
        ("SELECT STRING_AGG(b, b) AS b FROM t", "STRING_AGG with a separator that is not a constant"),
        (
            "SELECT ARRAY_AGG(DISTINCT a ORDER BY b) AS x FROM t",
            "with DISTINCT the list can only be ordered by its own",
        ),
        ("SELECT ARRAY_AGG(a) OVER () AS x FROM t", "as a window function is not supported"),
        ("SELECT bs FROM g UNION SELECT b FROM t", "ARRAY<STRING>"),
    ],
)
def test_what_arrays_cannot_do_is_refused(sql: str, words: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, b STRING)")
    db.create_view("g", "SELECT a, ARRAY_AGG(b) AS bs FROM t GROUP BY a")
    with pytest.raises(freshet.SqlError) as caught:
        db.create_view("v", sql)
    assert words in caught.value.reason and caught.value.line == 1
