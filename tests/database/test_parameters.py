"""`?` and `:name` in `execute` and `query`: a value stands for the literal that would be written for it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import freshet


@pytest.mark.parametrize(("value", "literal"), [
    (None, "NULL"), (True, "TRUE"), (7, "7"), (-7, "-7"), (2**40, str(2**40)), (10**25, str(10**25)), (1.5, "1.5e0"),
    (Decimal("1.50"), "1.50"), (Decimal("-0.001"), "-0.001"), ("it's; --", "'it\\'s; --'"), ("", "''"),
    (b"\x01\xff", "X'01FF'"), (dt.date(2024, 2, 29), "DATE '2024-02-29'"),
    (dt.datetime(2024, 2, 29, 1, 2, 3, 4), "TIMESTAMP '2024-02-29 01:02:03.000004'"),
    (dt.datetime(2024, 2, 29, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), "TIMESTAMP '2024-02-29 00:00:00'"),
    (dt.timedelta(hours=30, seconds=1), "INTERVAL '1 06:00:01' DAY TO SECOND"),
])  # fmt: skip
def test_values(value: Any, literal: str) -> None:
    db = freshet.connect()
    given, written = db.query("SELECT ? AS x", [value]), db.query(f"SELECT {literal} AS x")
    assert given.schema.types == written.schema.types and given.to_pylist() == written.to_pylist()


def test_parameters_in_every_statement() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT, s STRING)")
    db.execute("INSERT INTO t VALUES (?, ?), (?, ?)", (1, "x", np.int32(2), "y"))
    db.execute("UPDATE t SET s = :s WHERE a = :a", {"a": 2, "s": "z"})
    assert db.query("SELECT s FROM t ORDER BY a DESC LIMIT ?", [1]).to_pylist() == [{"s": "z"}]
    assert db.query("SELECT a FROM t WHERE s IN (:p, :q) ORDER BY a", {"p": "x", "q": "z"}).num_rows == 2
    assert db.execute("DELETE FROM t WHERE a > ?; SELECT COUNT(*) AS n FROM t WHERE a < ?", [1, 9]).to_pylist() == (
        [{"n": 1}]
    )
    assert db.query("SELECT a FROM t WHERE a = (SELECT MIN(a) FROM t WHERE a >= ?) AND s = ?", [0, "x"]).num_rows == 1


@pytest.mark.parametrize(("sql", "params", "message"), [
    ("SELECT ? AS x", None, "column 8: \\? has no value; give one for each in order"),
    ("SELECT ? AS x", [], "0 values for 1 \\? of the text"),
    ("SELECT ? AS x", [1, 2], "2 values for 1 \\? of the text; give one for each"),
    ("SELECT :a AS x", [1], "1 value for 0 \\?"),
    ("SELECT :a AS x", {"b": 1}, "the text has no :b; it has :a"),
    ("SELECT :a AS x, :b AS y", {"b": 1}, "column 8: :a has no value; the values given are b"),
    ("SELECT ? AS x", {"x": 1}, "the text has no :x"),
    ("SELECT ? AS x", "1", "parameters are '1'; give a list"),
    ("SELECT ? AS x", [object()], "which no SQL type holds"),
    ("SELECT ? AS x", [Decimal("NaN")], "NaN is not a DECIMAL"),
    ("SELECT ? AS x", [Decimal("1e-40")], "has 40 digits"),
    ("SELECT ? AS x", ["\ud800"], "half of a character"),
    ("CREATE MATERIALIZED VIEW v AS SELECT ? AS x", [1], "a parameter in a definition is not supported"),
])  # fmt: skip
def test_refused(sql: str, params: Any, message: str) -> None:
    with pytest.raises(freshet.SqlError, match=message):
        freshet.connect().execute(sql, params)
