"""`execute` of several statements says which one failed, and what was kept."""

from __future__ import annotations

import pytest

import freshet


@pytest.mark.parametrize(("sql", "message"), [
    ("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)", "2 of 2 failed; statement 1 was kept, up to version 2"),
    ("SELECT a FROM t; INSERT INTO t VALUES (1), (1); SELECT 1", "statement 2 of 3 failed; statement 1 was kept$"),
    ("INSERT INTO t VALUES (1), (1); SELECT 1", "statement 1 of 2 failed; nothing was kept"),
    ("INSERT INTO t VALUES (1); SELECT b FROM t", "statement 2 of 2 failed; nothing was run, because"),
    ("SELECT 1; SELECT 1 / (a - a) FROM u", "statement 2 of 2 failed; queries change nothing"),
])  # fmt: skip
def test_errors_say_what_was_kept(sql: str, message: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT PRIMARY KEY); CREATE TABLE u (a INT)")
    with db.transaction() as tx:
        tx.apply({"u": [(1,)]})
    before = db.version
    with pytest.raises(freshet.FreshetError, match=message):
        db.execute(sql)
    assert db.version == before + ("up to version" in message)


def test_one_statement_says_nothing_of_others() -> None:
    with pytest.raises(freshet.SqlError) as error:
        freshet.connect().execute("SELECT a FROM t")
    assert "statement" not in str(error.value)
