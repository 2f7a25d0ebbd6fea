"""PIVOT and UNPIVOT over changing tables, next to DuckDB; tests/scalar/nested_cases has Spark's answers."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import freshet
from tests.oracle import RunningSum, same_bag

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, k STRING, x INT, y INT)"
VIEWS = {
    "sums": (
        "SELECT * FROM (SELECT k, x, y FROM t) PIVOT (SUM(x) FOR k IN ('a', 'b' AS bb, NULL))",
        "SELECT y, SUM(x) FILTER (k = 'a'), SUM(x) FILTER (k = 'b'), SUM(x) FILTER (k IS NULL) FROM t GROUP BY y",
    ),
    "counts": (
        "SELECT * FROM (SELECT k, x FROM t) PIVOT (COUNT(*) AS n, MAX(x) AS m FOR k IN ('a'))",
        "SELECT NULLIF(COUNT(*) FILTER (k = 'a'), 0), MAX(x) FILTER (k = 'a') FROM t",
    ),
    "columns": (
        "SELECT * FROM (SELECT id, x, y FROM t) UNPIVOT (v FOR c IN (x, y AS z))",
        "SELECT id, 'x', x FROM t WHERE x IS NOT NULL UNION ALL SELECT id, 'z', y FROM t WHERE y IS NOT NULL",
    ),
    "with_nulls": (
        "SELECT c, COUNT(*) AS n, SUM(v) AS s FROM t UNPIVOT INCLUDE NULLS (v FOR c IN (x, y)) GROUP BY c",
        (
            "SELECT 'x', COUNT(*), SUM(x) FROM t HAVING COUNT(*) > 0 UNION ALL "
            "SELECT 'y', COUNT(*), SUM(y) FROM t HAVING COUNT(*) > 0"
        ),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_equal_to_duckdb_after_every_transaction(name: str) -> None:
    sql, theirs = VIEWS[name]
    db = freshet.connect()
    db.execute(TABLE)
    view = db.create_view("v", sql)
    schema = db.query("SELECT * FROM t").schema
    rng, held, total = random.Random(7), list[dict[str, Any]](), RunningSum(view.to_arrow())
    for number in range(25):
        changes = []
        for row in rng.sample(held, min(len(held), rng.randrange(3))):
            held.remove(row)
            changes.append({**row, "_weight": -1})
        for i in range(rng.randrange(3)):
            values = {"k": rng.choice(["a", "b", "c", None]), "x": rng.choice([1, 2, None]), "y": rng.choice([1, None])}
            held.append({"id": 10 * number + i, **values})
            changes.append({**held[-1], "_weight": 1})
        total.add(db.apply({"t": changes}).deltas["v"])
        total.equals(view.to_arrow())
        cursor = duckdb.connect()
        cursor.register("t", pa.Table.from_pylist(held, schema))
        same_bag(view.to_arrow(), cursor.execute(theirs).to_arrow_table())


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        ("PIVOT (SUM(x) FOR k IN (y))", "no column y"),
        ("PIVOT (SUM(x) FOR (k, y) IN ('a'))", "has 1 values for 2 columns of PIVOT"),
        ("UNPIVOT (v FOR c IN (x, k))", "UNPIVOT of x, which is INT, and k, which is STRING"),
        ("UNPIVOT (v FOR c IN (nope))", "no column nope to UNPIVOT; there are"),
        ("UNPIVOT ((v, w) FOR c IN ((x, y), (x)))", "has 1 columns for 2 of UNPIVOT"),
    ],
)
def test_what_is_refused(clause: str, words: str) -> None:
    db = freshet.connect()
    db.execute(TABLE)
    with pytest.raises(freshet.SqlError) as caught:
        db.create_view("v", f"SELECT * FROM t {clause}")
    assert words in caught.value.reason
