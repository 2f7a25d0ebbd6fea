"""Rows by the elements of their arrays, next to DuckDB's UNNEST over random transactions."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import freshet
from tests.oracle import RunningSum, same_bag

TABLES = {
    "t": "CREATE TABLE t (id INT PRIMARY KEY, a ARRAY<INT>, r ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, INT>)",
    "u": "CREATE TABLE u (k INT, b ARRAY<STRING>)",
}
#: Views, and the same in DuckDB's SQL.
VIEWS = {
    "elements": (
        "SELECT id, e FROM t LATERAL VIEW explode(a) x AS e",
        "SELECT id, UNNEST(a) FROM t",
    ),
    "places": (
        "SELECT id, p, e FROM t LATERAL VIEW posexplode(a) x AS p, e",
        "SELECT id, UNNEST(range(len(a))), UNNEST(a) FROM t",
    ),
    "outer": (
        "SELECT id, e FROM t LATERAL VIEW OUTER explode(a) x AS e",
        "SELECT id, UNNEST(CASE WHEN len(a) > 0 THEN a ELSE [NULL] END) FROM t",
    ),
    "structs": (
        "SELECT id, x, y FROM t LATERAL VIEW inline(r)",
        "SELECT id, e.x, e.y FROM (SELECT id, UNNEST(r) AS e FROM t)",
    ),
    "entries": (
        "SELECT id, key, value FROM t, LATERAL explode(m)",
        "SELECT id, UNNEST(map_keys(m)), UNNEST(map_values(m)) FROM t",
    ),
    "joined": (
        (
            "SELECT u.k, x.e, COUNT(*) AS n FROM t CROSS JOIN LATERAL explode(a) AS x(e) JOIN u ON u.k = x.e "
            "GROUP BY u.k, x.e"
        ),
        "SELECT u.k, e, COUNT(*) FROM (SELECT UNNEST(a) AS e FROM t) JOIN u ON u.k = e GROUP BY ALL",
    ),
    "both": (
        "SELECT t.id, e, f FROM t JOIN u ON t.id = u.k LATERAL VIEW explode(a) x AS e LATERAL VIEW explode(b) y AS f",
        "SELECT id, e, UNNEST(b) FROM (SELECT id, UNNEST(a) AS e, b FROM t JOIN u ON t.id = u.k)",
    ),
    "of_both": (
        "SELECT t.id, e FROM t JOIN u ON t.id < u.k LATERAL VIEW explode(array(t.id, u.k)) x AS e",
        "SELECT id, UNNEST([id, k]) FROM t JOIN u ON t.id < u.k",
    ),
    "optional": (
        "SELECT t.id, e FROM t LEFT JOIN u ON t.id = u.k LATERAL VIEW OUTER explode(b) x AS e",
        "SELECT id, UNNEST(CASE WHEN len(b) > 0 THEN b ELSE [NULL] END) FROM t LEFT JOIN u ON t.id = u.k",
    ),
    "selected": (
        "SELECT DISTINCT explode(a) AS e FROM t WHERE id > 1",
        "SELECT DISTINCT UNNEST(a) FROM t WHERE id > 1",
    ),
    "found": (
        "SELECT k FROM u WHERE k IN (SELECT explode(a) FROM t)",
        "SELECT k FROM u WHERE k IN (SELECT UNNEST(a) FROM t)",
    ),
    "ordered": (
        "SELECT e, id FROM t LATERAL VIEW explode(a) x AS e ORDER BY e DESC, id LIMIT 3",
        "SELECT e, id FROM (SELECT UNNEST(a) AS e, id FROM t) ORDER BY e DESC NULLS LAST, id LIMIT 3",
    ),
    "nested": (
        "SELECT id, e FROM t LATERAL VIEW explode(array(a, array(id))) x AS b LATERAL VIEW explode(b) y AS e",
        "SELECT id, UNNEST(b) FROM (SELECT id, UNNEST([a, [id]]) AS b FROM t)",
    ),
}


def _list(rng: random.Random, items: list[Any]) -> list[Any] | None:
    return None if rng.random() < 0.15 else [rng.choice(items) for _ in range(rng.randrange(4))]


def _row(rng: random.Random, table: str, id: int) -> dict[str, Any]:
    if table == "u":
        return {"k": rng.randrange(4), "b": _list(rng, ["x", "", None])}
    pairs = rng.sample(["k", "j", ""], rng.randrange(4))
    structs: list[Any] = [{"x": 1, "y": "p"}, {"x": None, "y": ""}, None]
    return {
        "id": id,
        "a": _list(rng, [0, 1, 2, 3, None]),
        "r": _list(rng, structs),
        "m": None if rng.random() < 0.2 else [(key, rng.choice([1, None])) for key in pairs],
    }


def _transaction(rng: random.Random, held: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Changes of both tables, which `held` then has."""
    changes: dict[str, list[dict[str, Any]]] = {"t": [], "u": []}
    for table, rows in held.items():
        for row in rng.sample(rows, rng.randrange(min(3, len(rows)) + 1)):
            rows.remove(row)
            changes[table].append({**row, "_weight": -1})
        for _ in range(rng.randrange(4)):
            free = [i for i in range(6) if all(i != r.get("id") for r in rows)]
            if table == "u" or free:
                rows.append(_row(rng, table, free[0] if free else 0))
                changes[table].append({**rows[-1], "_weight": 1})
    return changes


@pytest.mark.parametrize("name", VIEWS)
def test_equal_to_duckdb_after_every_transaction(name: str) -> None:
    sql, theirs = VIEWS[name]
    db = freshet.connect()
    for ddl in TABLES.values():
        db.execute(ddl)
    view = db.create_view("v", sql)
    tables = {table: db.query(f"SELECT * FROM {table}").schema for table in TABLES}
    for seed in range(4):
        rng, held = random.Random(seed), dict[str, list[dict[str, Any]]](t=[], u=[])
        total = RunningSum(view.to_arrow())
        for _ in range(12):
            total.add(db.apply(_transaction(rng, held)).deltas["v"])
            total.equals(view.to_arrow())
            cursor = duckdb.connect()
            for table, schema in tables.items():
                cursor.register(table, pa.Table.from_pylist(held[table], schema))
            same_bag(view.to_arrow(), cursor.execute(theirs).to_arrow_table())
            assert view.count() == view.to_arrow().num_rows
        db.apply({table: [{**row, "_weight": -1} for row in rows] for table, rows in held.items()})


def test_changed_elements_alone_are_in_the_delta() -> None:
    db = freshet.connect()
    db.execute(TABLES["t"])
    db.create_view("v", "SELECT id, e FROM t LATERAL VIEW explode(a) x AS e")
    db.execute("INSERT INTO t (id, a) VALUES (1, array(1, 2, 2))")
    delta = db.execute("UPDATE t SET a = array(2, 3) WHERE id = 1").deltas["v"].to_pylist()
    assert sorted((row["e"], row["_weight"]) for row in delta) == [(1, -1), (2, -1), (3, 1)]


def test_explain_names_what_is_flattened() -> None:
    db = freshet.connect()
    db.execute(TABLES["t"])
    view = db.create_view("v", "SELECT id, e FROM t LATERAL VIEW OUTER explode(a) x AS e")
    assert "class      elements" in view.explain() and "O(1) for each element" in view.explain()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT e FROM t LATERAL VIEW explode(id) x AS e", "EXPLODE takes an array or a map, not INT"),
        ("SELECT x FROM t LATERAL VIEW inline(a)", "INLINE takes an array of structs, not ARRAY<INT>"),
        ("SELECT e FROM t LATERAL VIEW explode(a) x AS e, f", "EXPLODE has 1 columns, but 2 are named"),
        ("SELECT e FROM t LATERAL VIEW explode(array()) x AS e", "elements without a type"),
        ("SELECT e FROM t LEFT JOIN LATERAL explode(a) AS x(e) ON TRUE", "write LATERAL VIEW OUTER"),
        ("SELECT explode(a) + 1 AS e FROM t", "EXPLODE(a) is not supported"),
        ("SELECT explode(collect_list(id)) AS e FROM t", "EXPLODE next to aggregates"),
        ("SELECT id FROM t WHERE EXISTS (SELECT explode(t.a))", "EXPLODE of a column of the enclosing query"),
        ("SELECT e FROM t LATERAL VIEW json_tuple(id, 'x') q AS e", "LATERAL VIEW of"),
    ],
)
def test_what_is_refused(sql: str, words: str) -> None:
    db = freshet.connect()
    db.execute(TABLES["t"])
    with pytest.raises(freshet.SqlError) as caught:
        db.create_view("v", sql)
    assert words in caught.value.reason and caught.value.line == 1
