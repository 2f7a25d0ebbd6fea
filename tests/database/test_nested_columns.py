"""Columns of arrays, structs and maps: rows in every form, deltas, keys, the log, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import freshet
from tests.oracle import RunningSum

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a ARRAY<INT>, s STRUCT<x: STRING, y: ARRAY<DATE>>, m MAP<STRING, BIGINT>)"
DAY = dt.date(2024, 2, 29)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "a": [1, None], "s": {"x": "p", "y": [DAY]}, "m": [("k", 1), ("j", None)]},
    {"id": 2, "a": [], "s": {"x": None, "y": None}, "m": []},
    {"id": 3, "a": [1, None], "s": None, "m": None},
]


def _kept(db: freshet.Connection) -> list[dict[str, Any]]:
    return sorted(db.view("v").to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("form", ["dicts", "tuples", "arrow", "pandas"])
def test_rows_in_every_form(form: str) -> None:
    db = freshet.connect()
    db.execute(TABLE)
    db.create_view("v", "SELECT id, a, s, m FROM t")
    rows: Any = [dict(row) for row in ROWS]
    if form == "dicts":
        rows[0]["m"] = {"k": 1, "j": None}
        rows[1]["s"] = {}
    elif form == "tuples":
        rows = [tuple(row.values()) for row in rows]
        rows[0] = (1, (1, None), ("p", ["2024-02-29"]), {"k": 1, "j": None})
    else:
        kinds = [f.with_name(n) for f, n in zip(db.view("v").to_arrow().schema, ("id", "a", "s", "m"), strict=True)]
        rows = pa.Table.from_pylist(rows, pa.schema(kinds))
        rows = rows.to_pandas() if form == "pandas" else rows
    delta = db.apply({"t": rows}).deltas["v"]
    assert _kept(db) == ROWS and delta.num_rows == 3


def test_deltas_of_groups_and_lists() -> None:
    db = freshet.connect()
    db.execute(TABLE)
    view = db.create_view("g", "SELECT a, COUNT(*) AS n, MIN(s) AS least, COLLECT_LIST(s) AS all_s FROM t GROUP BY a")
    total = RunningSum(view.to_arrow())
    for rows in (ROWS, [{**ROWS[0], "_weight": -1}], [{**ROWS[2], "_weight": -1}]):
        total.add(db.apply({"t": rows}).deltas["g"])
        total.equals(view.to_arrow())
    assert view.to_arrow().to_pylist() == [{"a": [], "n": 1, "least": ROWS[1]["s"], "all_s": [ROWS[1]["s"]]}]


def test_a_folder_keeps_them(tmp_path: Path) -> None:
    with freshet.connect(str(tmp_path)) as db:
        db.execute(TABLE)
        db.create_view("v", "SELECT id, a, s, m FROM t")
        db.apply({"t": ROWS})
    with freshet.connect(str(tmp_path)) as db:
        assert _kept(db) == ROWS
        db.apply({"t": [{**ROWS[1], "_weight": -1}]})
    for file in tmp_path.glob("*checkpoint*"):
        file.unlink()
    with freshet.connect(str(tmp_path)) as db:  # from the log alone
        assert _kept(db) == [ROWS[0], ROWS[2]]


def test_joins_and_keys_are_by_value() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE p (k STRUCT<a: INT, b: STRING> PRIMARY KEY, n INT)")
    db.execute("CREATE TABLE q (k STRUCT<a: INT, b: STRING>, w INT)")
    view = db.create_view("v", "SELECT n, w FROM p JOIN q ON p.k = q.k")
    db.apply({"p": [((1, "x"), 10), ((1, None), 20)], "q": [((1, "x"), 1), ((1, None), 2), (None, 3)]})
    assert sorted(view.to_arrow().to_pylist(), key=str) == [{"n": 10, "w": 1}, {"n": 20, "w": 2}]
    with pytest.raises(freshet.ChangeError, match="a second row with primary key"):
        db.apply({"p": [((1, "x"), 11)]})


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("k = (1, 'x')", [True, False, None]),
        ("(1, 'x') <=> k", [True, False, False]),
        ("k < (1, 'x')", [False, True, None]),
        ("k = (1, NULL)", [False, True, None]),
        ("NAMED_STRUCT('c', n, 'd', 2) >= (20, 2)", [False, True, True]),
    ],
)
def test_structs_are_compared_with_rows(condition: str, holds: list[bool | None]) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE p (n INT, k STRUCT<a: INT, b: STRING>)")
    view = db.create_view("v", f"SELECT {condition} AS c FROM p ORDER BY n")
    db.apply({"p": [(10, (1, "x")), (20, (1, None)), (30, None)]})
    assert [row["c"] for row in view.to_dicts()] == holds


@pytest.mark.parametrize("row", ["(1, 2)", "(1, 'x', 3)"])
def test_structs_are_not_compared_with_other_rows(row: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE p (k STRUCT<a: INT, b: STRING>)")
    with pytest.raises(freshet.SqlError, match=r"a row (has STRING where the other has INT|is compared with k, which)"):
        db.create_view("v", f"SELECT k = {row} AS c FROM p")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": 1, "a": 1}, "a is 1, not a value of ARRAY<INT>; give lists"),
        ({"id": 1, "a": ["x"]}, "a: 'x' (string) is not a value of INT; give numbers"),
        ({"id": 1, "s": {"z": 1}}, "s is {'z': 1}, not a value of STRUCT<x: STRING, y: ARRAY<DATE>>"),
        ({"id": 1, "s": ("p",)}, "s is ('p',), not a value of"),
        ({"id": 1, "m": {None: 1}}, "not a value of MAP<STRING, BIGINT>; give dicts"),
        ({"id": 1, "m": [("a", 1), ("a", 2)]}, "a map with key a twice"),
    ],
)
def test_rows_that_do_not_fit_are_refused(row: dict[str, Any], words: str) -> None:
    db = freshet.connect()
    db.execute(TABLE)
    with pytest.raises(freshet.ChangeError) as caught:
        db.apply({"t": [row]})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT m, COUNT(*) AS n FROM t GROUP BY m", "GROUP BY MAP<STRING, BIGINT> is not supported"),
        ("SELECT DISTINCT m FROM t", "SELECT DISTINCT of MAP<STRING, BIGINT> is not supported"),
        ("SELECT m FROM t UNION SELECT m FROM t", "UNION MAP<STRING, BIGINT> is not supported"),
        ("SELECT id FROM t WHERE m = m", "no operator MAP<STRING, BIGINT> = MAP<STRING, BIGINT>"),
        ("SELECT MAX(m) AS m FROM t", "no aggregate MAX(MAP<STRING, BIGINT>); maps are not ordered"),
        ("SELECT COUNT(DISTINCT m) AS m FROM t", "maps are not compared"),
        ("SELECT id FROM t ORDER BY m LIMIT 1", "maps are not ordered"),
        ("SELECT a + 1 AS b FROM t", "no operator ARRAY<INT> + INT"),
    ],
)
def test_what_maps_cannot_do_is_refused(sql: str, words: str) -> None:
    db = freshet.connect()
    db.execute(TABLE)
    with pytest.raises(freshet.SqlError) as caught:
        db.create_view("v", sql)
    assert words in caught.value.reason and caught.value.line == 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("ARRAY", "lacks the types of what it holds"),
        ("ARRAY<VARCHAR(3)>", "VARCHAR(3) inside of another type is not supported"),
        ("MAP<MAP<INT, INT>, INT>", "a map with keys of MAP<INT, INT> is not supported"),
        ("STRUCT<a: INT, A: INT>", "a struct with two fields A"),
        ("ARRAY<" * 40 + "INT" + ">" * 40, "a type of more than 30 levels is not supported"),
    ],
)
def test_types_that_are_refused(kind: str, words: str) -> None:
    with pytest.raises(freshet.SqlError) as caught:
        freshet.connect().execute(f"CREATE TABLE t (a {kind})")
    assert words in caught.value.reason
