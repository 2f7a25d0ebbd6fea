"""CREATE OR REPLACE."""

from __future__ import annotations

from pathlib import Path

import pytest

import freshet


def test_view_and_table(tmp_path: Path) -> None:
    with freshet.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
        old = db.create_view("v", "SELECT a FROM t")
        subscription = old.subscribe(print)
        view = db.execute("CREATE OR REPLACE MATERIALIZED VIEW V AS SELECT SUM(a) AS s FROM t")
        assert view.to_dicts() == [{"s": 3}] and list(db.views) == ["v"]
        assert subscription.closed and "closed" in repr(old)
        with pytest.raises(freshet.StateError, match="dropped"):
            old.to_arrow()
        db.create_view("v", "SELECT MAX(a) AS m FROM t", replace=True)
        db.execute("CREATE OR REPLACE TABLE u (b STRING); INSERT INTO u VALUES ('x')")
        db.execute("CREATE OR REPLACE TABLE u (b STRING, c INT)")
    with freshet.connect(tmp_path / "db") as db:
        assert db.view("v").to_dicts() == [{"m": 2}]
        assert db.query("SELECT * FROM u").schema.names == ["b", "c"] and db.query("SELECT * FROM u").num_rows == 0


@pytest.mark.parametrize(("sql", "message"), [
    ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1 AS one", "view w reads view v"),
    ("CREATE OR REPLACE TABLE t (b INT)", "views w, v read table t"),
    ("CREATE OR REPLACE TABLE v (b INT)", "a view v already exists"),
    ("CREATE OR REPLACE MATERIALIZED VIEW t AS SELECT 1 AS one", "a table t already exists"),
    ("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT a FROM w", "view w would read itself"),
    ("CREATE OR REPLACE TABLE IF NOT EXISTS t (b INT)", "OR REPLACE and IF NOT EXISTS"),
    ("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT 1 DIV (a - 1) AS q FROM t", "no answer"),
])  # fmt: skip
def test_refused(sql: str, message: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    db.create_view("v", "SELECT a FROM t")
    db.create_view("w", "SELECT a FROM v")
    with pytest.raises(freshet.FreshetError, match=message):
        db.execute(sql)
    db.execute("INSERT INTO t VALUES (5)")
    assert len(db.view("w")) == 2 and list(db.views) == ["v", "w"]
