"""Recursive views over graphs that change at random, with cycles, next to DuckDB after every transaction."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import inside
from tests.oracle import RunningSum, duckdb_answer, same_bag

DDL = "CREATE TABLE e (a INT, b INT, w INT); CREATE TABLE p (id INT PRIMARY KEY, k INT, s STRING)"
SCHEMAS = {
    "e": pa.schema([("a", pa.int32()), ("b", pa.int32()), ("w", pa.int32())]),
    "p": pa.schema([("id", pa.int32()), ("k", pa.int32()), ("s", pa.string())]),
}
#: UNION: rows of earlier iterations are left out, so cycles come to an end.
SETS = (
    "WITH RECURSIVE t(a, b) AS (SELECT a, b FROM e UNION SELECT t.a, e.b FROM t JOIN e ON t.b = e.a) SELECT * FROM t",
    "WITH RECURSIVE t(a) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e ON t.a = e.a) SELECT a FROM t",
    (
        "WITH RECURSIVE t(a) AS (SELECT k FROM p WHERE id < 2 UNION SELECT e.b FROM e JOIN t ON t.a = e.a AND e.w > 0)"
        " SELECT p.id, t.a FROM t LEFT JOIN p ON p.id = t.a"
    ),
    (
        "WITH RECURSIVE t(a, b) AS (SELECT id, id FROM p UNION SELECT t.a, n.b FROM t JOIN"
        " (SELECT a, b FROM e UNION ALL SELECT b, a FROM e) AS n ON n.a = t.b) SELECT a, MIN(b) AS b FROM t GROUP BY a"
    ),
    (
        "WITH RECURSIVE t(a, n) AS (SELECT 1, 0 UNION SELECT e.b, t.n + 1 FROM t JOIN e ON e.a = t.a WHERE t.n < 4)"
        " SELECT a, MIN(n) AS n FROM t GROUP BY a"
    ),
    (
        "WITH RECURSIVE t(a, s) AS (SELECT id, s FROM p UNION SELECT e.b, t.s FROM t JOIN e ON e.a = t.a)"
        " SELECT a, COUNT(*) AS n, MAX(s) AS s FROM t GROUP BY a"
    ),
    (
        "WITH RECURSIVE t(a, b) AS (SELECT a, b FROM e UNION SELECT t.a, e.b FROM t LEFT JOIN e ON t.b = e.a)"
        " SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a, b) AS (SELECT a, w FROM e UNION SELECT t.a, e.w FROM t JOIN e ON e.a = t.a AND e.b > t.b)"
        " SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e ON t.a = e.a), u(a) AS"
        " (SELECT 1 UNION SELECT e.b FROM u JOIN e ON u.a = e.a JOIN t ON t.a = e.b) SELECT * FROM u"
    ),
    (
        "WITH RECURSIVE t(a) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e ON t.a = e.a) SELECT id FROM p"
        " WHERE id NOT IN (SELECT a FROM t WHERE a IS NOT NULL) AND k IN (SELECT a FROM t)"
    ),
    (
        "WITH RECURSIVE t(a) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e ON t.a = e.a WHERE NOT EXISTS"
        " (SELECT 1 FROM p WHERE p.id = t.a AND p.k = 0)) SELECT x.a, y.a AS b FROM t x JOIN t y ON x.a < y.a"
    ),
    (
        "WITH RECURSIVE t(a) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e ON t.a = e.a) SELECT a FROM t EXCEPT"
        " SELECT id FROM p"
    ),
)
#: The step reads the recursion in subqueries of its expressions.
INSIDE = (
    "WITH RECURSIVE t(a) AS (SELECT 0 UNION SELECT e.b FROM e WHERE e.a IN (SELECT a FROM t)) SELECT a FROM t",
    (
        "WITH RECURSIVE t(a, n) AS (SELECT id, 0 FROM p UNION ALL SELECT e.b, e.w FROM e WHERE w > 0 AND EXISTS"
        " (SELECT 1 FROM t WHERE t.a = e.a AND t.n < e.w)) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a, n) AS (SELECT id, 0 FROM p UNION ALL SELECT e.b, t.n + 1 FROM t JOIN e ON e.a = t.a"
        " WHERE t.n < 3 AND t.a < (SELECT MAX(a) FROM t)) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a, n) AS (SELECT id, 0 FROM p UNION ALL SELECT t.a, t.n + 1 FROM t WHERE t.n < 3 AND"
        " NOT EXISTS (SELECT 1 FROM e JOIN t AS u ON u.a = e.b WHERE e.a = t.a)) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a, n) AS (SELECT a, 0 FROM e UNION SELECT b, CAST((SELECT COUNT(*) FROM t WHERE t.a > e.a)"
        " AS INT) FROM e WHERE a IN (SELECT a FROM t WHERE n < 2)) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a) AS (SELECT 0 UNION SELECT e.b FROM e WHERE EXISTS (SELECT 1 FROM p WHERE p.id = e.a"
        " AND p.id IN (SELECT a FROM t WHERE t.a >= e.w))) SELECT a FROM t"
    ),
    (
        "WITH RECURSIVE t(a) AS (SELECT 0 UNION SELECT l.b FROM p, LATERAL (SELECT e.b FROM e JOIN t USING (a)"
        " WHERE e.w <= p.k) AS l) SELECT a FROM t"
    ),
)
#: UNION ALL: each derivation counts.
BAGS = (
    (
        "WITH RECURSIVE t(a, b, n) AS (SELECT a, b, 1 FROM e UNION ALL SELECT t.a, e.b, t.n + 1 FROM t JOIN e"
        " ON t.b = e.a WHERE t.n < 3) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a, n, w) AS (SELECT id, 0, 0 FROM p UNION ALL SELECT e.b, t.n + 1, t.w + e.w FROM t JOIN e"
        " ON t.a = e.a WHERE t.n < 3) SELECT a, MIN(w) AS w, COUNT(*) AS c FROM t GROUP BY a"
    ),
    (
        "WITH RECURSIVE t(a, n, q) AS (SELECT 1, 0, 1 UNION ALL SELECT e.b, n + 1, q * w FROM t JOIN e USING (a)"
        " WHERE n < 4) SELECT a, SUM(q) AS q FROM t GROUP BY a"
    ),
    (
        "WITH RECURSIVE t(a, n) AS (SELECT a, 0 FROM e WHERE w = 1 UNION ALL SELECT b, n + 1 FROM (SELECT t.n, e.b"
        " FROM t JOIN e ON e.a = t.a WHERE t.n < 2) AS s) SELECT n, a, COUNT(*) AS c FROM t GROUP BY n, a"
    ),
    (
        "WITH RECURSIVE t(a, b, n) AS (SELECT a, b, 0 FROM e UNION ALL SELECT t.b, e.b, n + 1 FROM t LEFT JOIN e"
        " ON t.b = e.a WHERE n < 2) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(n) AS (SELECT MIN(a) FROM e UNION ALL SELECT n + 1 FROM t WHERE n < (SELECT MAX(b) FROM e))"
        " SELECT n FROM t"
    ),
    (
        "WITH RECURSIVE t(n, m) AS (SELECT id, k FROM p UNION ALL SELECT n, m - 1 FROM t WHERE m > 0)"
        " SELECT n, m, s FROM t JOIN p ON p.id = t.n"
    ),
    (
        "WITH RECURSIVE t(a, n) AS (SELECT a, 0 FROM e UNION ALL SELECT DISTINCT e.b, n + 1 FROM t JOIN e ON e.a = t.a"
        " WHERE n < 3) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a, n) AS (SELECT 0, 0 UNION ALL SELECT x.b, n + 1 FROM t JOIN e x ON x.a = t.a JOIN e y"
        " ON y.a = x.b AND y.w > x.w WHERE n < 3) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(s, n) AS (SELECT s, 0 FROM p UNION ALL SELECT t.s || p.s, n + 1 FROM t JOIN p ON p.id = n"
        " WHERE n < 3) SELECT s, n FROM t"
    ),
    (
        "WITH RECURSIVE t(a, b, n) AS (SELECT a, b, 0 FROM e UNION ALL SELECT x.a, y.b, x.n + 1 FROM t x JOIN t y"
        " ON x.b = y.a WHERE x.n < 2) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a, n) AS (SELECT a, 0 FROM e UNION ALL (SELECT b, n + 1 FROM e JOIN t USING (a) WHERE n < 2"
        " EXCEPT SELECT w, n + 1 FROM e JOIN t USING (a))) SELECT * FROM t"
    ),
    (
        "WITH RECURSIVE t(a, n) AS (SELECT id, 0 FROM p UNION ALL (SELECT a - 1, n + 1 FROM t WHERE a > 0 UNION ALL"
        " SELECT e.b, n + 1 FROM t JOIN e USING (a) WHERE n < 2)) SELECT * FROM t WHERE n < 4"
    ),
    (
        "SELECT p.id, r.n FROM p LEFT JOIN (WITH RECURSIVE t(a, n) AS (SELECT id, 0 FROM p UNION ALL SELECT e.b, n + 1"
        " FROM t JOIN e ON e.a = t.a WHERE n < 2) SELECT a, MAX(n) AS n FROM t GROUP BY a) AS r ON r.a = p.id"
    ),
)


class _Model:
    """Tables that change at random, in Python."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.random, self.nodes = random.Random(seed), nodes
        self.rows: dict[str, list[tuple[int | str | None, ...]]] = {"e": [], "p": []}

    def row(self, table: str) -> tuple[int | str | None, ...]:
        chosen = self.random
        node = None if chosen.random() < 0.05 else chosen.randrange(self.nodes)
        if table == "p":
            return chosen.randrange(self.nodes), node, None if chosen.random() < 0.1 else chosen.choice("xyz")
        return chosen.randrange(self.nodes), node, chosen.randrange(3)

    def change(self) -> dict[str, pa.Table]:
        changes = {}
        for name, rows in self.rows.items():
            most = 1 + len(rows) // 4
            gone = [
                rows.pop(self.random.randrange(len(rows))) for _ in range(min(len(rows), self.random.randrange(most)))
            ]
            come = []
            for row in (self.row(name) for _ in range(self.random.randrange(4 if len(rows) < 2 * self.nodes else 2))):
                if name == "e" or all(r[0] != row[0] for r in rows):
                    rows.append(row)
                    come.append(row)
            weights = [-1] * len(gone) + [1] * len(come)
            table = self._table(name, gone + come)
            changes[name] = table.append_column("_weight", pa.array(weights, pa.int64()))
        return changes

    def _table(self, name: str, rows: list[tuple[int | str | None, ...]]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMAS[name])
        return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, SCHEMAS[name], strict=True)], SCHEMAS[name])

    def tables(self) -> dict[str, pa.Table]:
        return {name: self._table(name, rows) for name, rows in self.rows.items()}


@pytest.mark.parametrize("sql", SETS + INSIDE + BAGS)
@pytest.mark.parametrize("seed", range(4))
def test_equals_duckdb_after_every_transaction(sql: str, seed: int) -> None:
    model = _Model(seed, nodes=(3, 4, 6, 9)[seed])
    db = freshet.connect()
    db.execute(DDL)
    for _ in range(3 * seed):  # some views begin over tables with rows
        db.apply(model.change())
    view = db.create_view("v", sql)
    total = RunningSum(view.to_arrow())
    for _ in range(25):
        total.add(db.apply(model.change()).deltas["v"])
        answer = view.to_arrow()
        total.equals(answer)
        same_bag(answer, duckdb_answer(sql, model.tables()))
        assert view.count() == answer.num_rows
    db.close()


ENDLESS = """
    WITH RECURSIVE t(a, b) AS (SELECT a, b FROM e UNION ALL SELECT t.a, e.b FROM t JOIN e ON t.b = e.a) SELECT * FROM t
"""


def _edges(*pairs: tuple[int, int], weight: int = 1) -> list[dict[str, int]]:
    return [{"a": a, "b": b, "_weight": weight} for a, b in pairs]


def _edge_db() -> freshet.Db:
    db = freshet.connect()
    db.execute("CREATE TABLE e (a INT, b INT)")
    return db


def test_a_recursion_without_end_refuses_the_transaction() -> None:
    db = _edge_db()
    view = db.create_view("v", ENDLESS)
    version = db.apply({"e": _edges((1, 2), (2, 3))}).version
    before = view.to_arrow()
    with pytest.raises(freshet.ChangeError, match="WITH RECURSIVE t still has rows after 100 iterations; end it with"):
        db.apply({"e": _edges((3, 1))})
    assert db.version == version
    same_bag(view.to_arrow(), before)
    delta = db.apply({"e": _edges((3, 4))}).deltas["v"]
    assert sorted(delta.to_pylist(), key=str) == _edges((1, 4), (2, 4), (3, 4))


def test_so_is_a_view_or_a_query_that_would_not_end() -> None:
    db = _edge_db()
    db.apply({"e": _edges((1, 1))})
    with pytest.raises(freshet.FreshetError, match="still has rows after 100 iterations"):
        db.create_view("v", ENDLESS)
    with pytest.raises(freshet.FreshetError, match="still has rows after 100 iterations"):
        db.execute(ENDLESS)
    assert list(db.views) == []


@pytest.mark.parametrize(
    ("levels", "numbers", "ends"), [(100, 100, True), (100, 101, False), (3, 3, True), (3, 4, False)]
)
def test_the_anchor_counts_as_a_level(levels: int, numbers: int, ends: bool) -> None:
    written = "" if levels == 100 else f" MAX RECURSION LEVEL {levels}"
    sql = (
        f"WITH RECURSIVE t(n){written} AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {numbers}) SELECT n FROM t"
    )
    if ends:
        assert freshet.connect().execute(sql).num_rows == numbers
        return
    with pytest.raises(freshet.FreshetError, match=f"still has rows after {levels} iterations"):
        freshet.connect().execute(sql)


def test_rows_that_multiply_are_refused_at_a_million() -> None:
    sql = (
        "WITH RECURSIVE t(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM t, range(10) WHERE n < {}) SELECT COUNT(*) FROM t"
    )
    db = freshet.connect()
    assert db.execute(sql.format(5)).column(0).to_pylist() == [111_111]
    with pytest.raises(freshet.FreshetError, match="WITH RECURSIVE t has more than 1,000,000 rows; end it with"):
        db.execute(sql.format(6))


HALVES = """
    WITH RECURSIVE t(a, n) AS (SELECT 1, 64L UNION ALL SELECT b, n DIV (b - 3) FROM t JOIN e USING (a))
    SELECT * FROM t
"""


def test_a_failing_step_refuses_the_transaction() -> None:
    db = _edge_db()
    view = db.create_view("v", HALVES)
    db.apply({"e": _edges((1, 2), (2, 5))})
    before = view.to_arrow()
    with pytest.raises(freshet.ChangeError, match="division by zero"):
        db.apply({"e": _edges((5, 3), (5, 4))})
    same_bag(view.to_arrow(), before)
    db.apply({"e": _edges((5, 4))})
    assert {(r["a"], r["n"]) for r in view.to_arrow().to_pylist()} == {(1, 64), (2, -64), (5, -32), (4, -32)}


def test_a_row_that_only_old_rows_would_make_does_not_fail() -> None:
    db = _edge_db()
    view = db.create_view("v", HALVES)
    db.apply({"e": _edges((1, 2), (2, 5), (1, 4))})
    total = RunningSum(view.to_arrow())
    total.add(db.apply({"e": _edges((5, 3), (4, 6)) + _edges((2, 5), weight=-1)}).deltas["v"])
    total.equals(view.to_arrow())
    assert {(r["a"], r["n"]) for r in view.to_arrow().to_pylist()} == {(1, 64), (2, -64), (4, 64), (6, 21)}
    assert view.count() == 4
    total.add(db.apply({"e": _edges((2, 4))}).deltas["v"])
    total.equals(view.to_arrow())


def test_state_comes_back_from_disk(tmp_path: Path) -> None:
    model = _Model(7, nodes=6)
    db = freshet.connect(tmp_path / "db")
    db.execute(DDL)
    names = {f"v{i}": sql for i, sql in enumerate((SETS[0], SETS[3], BAGS[1], BAGS[9]))}
    for name, sql in names.items():
        db.create_view(name, sql)
    for _ in range(3):
        for _ in range(8):
            db.apply(model.change())
        db.close()
        db = freshet.connect(tmp_path / "db")
        for name, sql in names.items():
            same_bag(db.view(name).to_arrow(), duckdb_answer(sql, model.tables()))
    db.close()


def test_views_over_a_recursive_view_and_queries_of_it() -> None:
    model = _Model(3, nodes=5)
    db = freshet.connect()
    db.execute(DDL)
    db.create_view("path", SETS[0])
    db.create_view("reach", "SELECT a, COUNT(*) AS n FROM path GROUP BY a")
    again = """
        WITH RECURSIVE t(a) AS (SELECT a FROM reach WHERE n = 1 UNION SELECT path.b FROM t JOIN path USING (a))
        SELECT * FROM t
    """
    db.create_view("further", again)
    reach = f"SELECT a, COUNT(*) AS n FROM ({SETS[0]}) AS q GROUP BY a"
    for _ in range(20):
        db.apply(model.change())
        tables = model.tables()
        same_bag(db.view("reach").to_arrow(), duckdb_answer(reach, tables))
        tables |= {"path": duckdb_answer(SETS[0], tables), "reach": duckdb_answer(reach, tables)}
        same_bag(db.view("further").to_arrow(), duckdb_answer(again, tables))
        same_bag(db.execute(BAGS[1]), duckdb_answer(BAGS[1], tables))
        same_bag(db.execute("SELECT b FROM path WHERE a = 1"), duckdb_answer("SELECT b FROM path WHERE a = 1", tables))


def test_a_change_costs_what_it_changes() -> None:
    """A chain of 90 nodes: what an edge at its end changes does not depend on its length."""
    db = _edge_db()
    view = db.create_view(
        "v", "WITH RECURSIVE t(a) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e USING (a)) SELECT * FROM t"
    )
    db.apply({"e": _edges(*((i, i + 1) for i in range(89)))})
    before = inside(view).operator.work().steps
    db.apply({"e": _edges((89, 90))})
    db.apply({"e": _edges((89, 90), weight=-1)})
    assert inside(view).operator.work().steps - before < 40
    db.apply({"e": _edges((0, 1), weight=-1)})
    assert view.count() == 1


def test_what_explain_says() -> None:
    db = _edge_db()
    explained = db.create_view("v", SETS[1]).explain()
    assert "class      recursive" in explained
    assert "one more step for each row of an iteration of t that comes or goes" in explained
    assert "state linear in the tables: the rows of t are stored with their iterations, and how often" in explained
    assert explained.count("input anchor") == explained.count("input step") == 1
