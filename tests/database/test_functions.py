"""Functions in Python: called for distinct rows of a batch, refused where they fail, given again to a folder."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import freshet
from tests.oracle import RunningSum

DDL = "CREATE TABLE t (id INT PRIMARY KEY, a INT, s STRING)"


def score(a: pa.Array, s: pa.Array) -> list[float | None]:
    pairs = zip(a.to_pylist(), s.to_pylist(), strict=True)
    return [None if x is None else x * 1.5 + len(y or "") for x, y in pairs]


def _scored(rows: list[tuple[int, int | None, str | None]]) -> list[float | None]:
    return score(pa.array([r[1] for r in rows], pa.int32()), pa.array([r[2] for r in rows], pa.string()))


def test_views_follow_as_if_it_were_a_function_of_sql() -> None:
    chosen, db, rows = random.Random(5), freshet.connect(), dict[int, tuple[int, int | None, str | None]]()
    db.create_function("Score", score, returns="DOUBLE")
    db.execute(DDL)
    view = db.create_view(
        "v", "SELECT s, SUM(score(a, s)) AS total, COUNT(*) AS n FROM t WHERE score(a, 'x') IS NOT NULL GROUP BY s"
    )
    joined = db.create_view("j", "SELECT x.id, y.id AS o FROM t x JOIN t y ON SCORE(x.a, x.s) = score(y.a, y.s)")
    totals = {"v": RunningSum(view.to_arrow()), "j": RunningSum(joined.to_arrow())}
    for _ in range(30):
        for _ in range(5):
            i = chosen.randrange(20)
            rows[i] = (i, chosen.choice((None, 1, 2, 4)), chosen.choice((None, "a", "abc")))
        gone = [i for i in rows if chosen.random() < 0.1]
        kept = [(*r, "upsert") for r in rows.values() if r[0] not in gone]
        gone_rows = [(i, None, None, "delete") for i in gone if db.query("SELECT 1 AS x FROM t WHERE id = ?", [i])]
        names = ["id", "a", "s", "_change_type"]
        tx = db.apply({"t": [dict(zip(names, r, strict=True)) for r in kept + gone_rows]})
        for i in gone:
            del rows[i]
        groups: dict[str | None, list[float]] = {}
        for row, value in zip(rows.values(), _scored(list(rows.values())), strict=True):
            if value is not None:
                groups.setdefault(row[2], []).append(value)
        found = {r["s"]: (r["total"], r["n"]) for r in view.to_dicts()}
        assert found == {s: (sum(values), len(values)) for s, values in groups.items()}
        values = dict(zip(rows, _scored(list(rows.values())), strict=True))
        pairs = {(i, j) for i in values for j in values if values[i] is not None and values[i] == values[j]}
        assert {(r["id"], r["o"]) for r in joined.to_dicts()} == pairs
        for name, total in totals.items():
            total.add(tx.deltas[name])
            total.equals(db.view(name).to_arrow())


def test_it_is_called_once_with_each_distinct_row_of_a_batch() -> None:
    calls = list[list[Any]]()

    def double(x: pa.Array) -> pa.Array:
        calls.append(x.to_pylist())
        return pc.multiply(x, 2)

    db = freshet.connect()
    db.create_function("double_of", double, returns="BIGINT")
    db.execute("CREATE TABLE t (id INT, a INT)")
    view = db.create_view("v", "SELECT id, double_of(a) AS d FROM t")
    assert calls == []  # not for rows that are not there
    tx = db.apply({"t": [(i, i % 3 if i % 4 else None) for i in range(1_000)]})
    tx.deltas["v"].num_rows  # noqa: B018  (it is computed when it is read)
    assert len(calls) == 1 and sorted(map(str, calls[0])) == ["0", "1", "2", "None"]
    assert sum(r["d"] or 0 for r in view.to_dicts()) == sum(2 * (i % 3) for i in range(1_000) if i % 4)


@pytest.mark.parametrize(
    ("returns", "given", "value"),
    [
        ("STRING", ["x"], "x"),
        ("DECIMAL(5,2)", pa.array(["1.25"]).cast(pa.decimal128(5, 2)), "1.25"),
        ("DOUBLE", np.array([0.5]), "0.5"),
        ("BIGINT", pa.array([7], pa.int8()), "7"),
        ("BOOLEAN", [True], "True"),
        ("DATE", pa.array([0], pa.date32()), "1970-01-01"),
        ("STRING", pa.chunked_array([["y"]]), "y"),
        ("INT", [None], "None"),
    ],
)
def test_allowed_return_values(returns: str, given: Any, value: str) -> None:
    db = freshet.connect()
    db.create_function("f", lambda x: given, returns=returns)
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    assert str(db.query("SELECT f(a) AS v FROM t").to_pylist()[0]["v"]) == value
    assert str(db.create_view("v", "SELECT f(a) AS v FROM t").to_dicts()[0]["v"]) == value


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            lambda x: [1 / v for v in x.to_pylist()],
            r"^((?!returned).)*function f fails for the row \(0\): ZeroDivisionError: division",
        ),
        (lambda x: [1.0] if len(x) == 1 else [], r"function f fails for 2 rows: ValueError: it gave 0 values for 2"),
        (lambda x: ["text"] * len(x), r"function f fails for the row \(5\): ArrowInvalid"),
        (lambda x: 5, "function f fails for the row"),
    ],
)
def test_what_fails_is_refused_and_named(body: Callable[..., Any], words: str) -> None:
    db = freshet.connect()
    db.create_function("f", body, returns="DOUBLE")
    db.execute("CREATE TABLE t (a INT)")
    view = db.create_view("v", "SELECT SUM(f(a)) AS s FROM t")
    with pytest.raises(freshet.ChangeError, match=words):
        db.apply({"t": [(5,), (0,)]})
    assert db.version == 0 and view.to_dicts() == [{"s": None}]
    assert db.query("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": 0}]


def test_what_is_not_deterministic_is_stored_with_the_row() -> None:
    numbers = iter(range(100))
    db = freshet.connect()
    db.create_function("ticket", lambda x: [next(numbers) for _ in x], returns="INT", deterministic=False)
    db.execute("CREATE TABLE t (a INT, n INT)")
    with pytest.raises(freshet.UnsupportedError, match="store its value with the row") as error:
        db.create_view("v", "SELECT ticket(a) AS n FROM t")
    assert error.value.column == 8
    view = db.create_view("v", "SELECT MAX(n) AS n FROM t")
    db.execute("INSERT INTO t SELECT x, ticket(x) FROM VALUES (1), (2), (3) AS s(x)")
    stored = [row["n"] for row in db.query("SELECT n FROM t").to_pylist()]
    assert len({*stored}) == 3 and view.to_dicts() == [{"n": max(stored)}]
    db.execute("UPDATE t SET n = ticket(a) WHERE a = 1")
    (changed,) = (row["n"] for row in db.query("SELECT n FROM t WHERE a = 1").to_pylist())
    assert changed > max(stored) and view.to_dicts() == [{"n": changed}]


@pytest.mark.parametrize(
    ("name", "body", "returns", "words"),
    [
        ("upper", len, "INT", "upper is a function of SQL already"),
        ("sum", len, "INT", "sum is a function of SQL already"),
        ("now", len, "INT", "now is a function of SQL already"),
        ("two words", len, "INT", "not a name that SQL can call"),
        ("select", len, "INT", "has a name that SQL reads as a word"),
        ("f", 5, "INT", "f is 5; give something that can be called"),
        ("f", len, "NUMBERS", "type NUMBERS|cannot return 'NUMBERS'"),
        ("f", len, "INT, 5", "cannot return 'INT, 5'"),
    ],
)
def test_invalid_functions_are_refused(name: str, body: Any, returns: str, words: str) -> None:
    with pytest.raises(freshet.SqlError, match=words):
        freshet.connect().create_function(name, body, returns=returns)


def test_each_database_has_its_own() -> None:
    found = []
    for factor in (2, 3):
        db = freshet.connect()
        db.create_function("times", lambda x, by=factor: pc.multiply(x, by), returns="BIGINT")
        db.execute("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (7)")
        found.append(db.create_view("v", "SELECT times(a) AS v FROM t"))
    assert [view.to_dicts() for view in found] == [[{"v": 14}], [{"v": 21}]]
    with pytest.raises(freshet.UnsupportedError, match="function times"):
        freshet.connect().query("SELECT times(1) AS v")


def test_a_function_that_views_call_stays() -> None:
    db = freshet.connect()
    db.create_function("f", score, returns="DOUBLE")
    db.execute(DDL)
    db.create_function("f", len, returns="DOUBLE")  # nothing calls it yet
    db.create_function("f", score, returns="DOUBLE")
    db.create_view("v", "SELECT f(a, s) AS x FROM t")
    db.create_function("F", score, returns="DOUBLE")
    with pytest.raises(freshet.SqlError, match="views v call function f; drop them first"):
        db.create_function("f", len, returns="DOUBLE")
    db.execute("DROP VIEW v")
    db.create_function("f", len, returns="DOUBLE")


def test_a_folder_is_opened_with_the_functions_it_needs(tmp_path: Path) -> None:
    folder, copy = tmp_path / "db", tmp_path / "copy"
    with freshet.connect(folder, retain=5) as db:
        db.create_function("score", score, returns="DOUBLE")
        db.execute(DDL)
        view = db.create_view("v", "SELECT SUM(score(a, s)) AS total FROM t")
        db.apply({"t": [(1, 2, "a")]})
        db.apply({"t": [(2, 4, "ab")]})
        assert [view.at(v).to_pylist() for v in (1, 2)] == [[{"total": 4.0}], [{"total": 12.0}]]
        copy.mkdir()
        for file in folder.iterdir():
            if file.is_file():
                (copy / file.name).write_bytes(file.read_bytes())
    for each in (folder, copy):
        with pytest.raises(freshet.StateError, match=r"a view calls function score, .* functions=\{'score': \.\.\.\}"):
            freshet.connect(each)
        with freshet.connect(each, functions={"score": score}) as db:
            assert db.view("v").to_dicts() == [{"total": 12.0}]
            db.create_function("score", score, returns="DOUBLE")
            db.execute("DELETE FROM t WHERE id = 1")
            assert db.view("v").to_dicts() == [{"total": 8.0}]
            db.create_view("w", "SELECT score(a, s) AS x FROM t")


@pytest.mark.parametrize("use", [
    lambda db: db.apply({"t": [(7,)]}), lambda db: db.execute("INSERT INTO u VALUES (5)"),
    lambda db: db.query("SELECT COUNT(*) AS n FROM v"), lambda db: db.create_view("w", "SELECT a FROM u"),
    lambda db: db.execute("DROP TABLE u"), lambda db: db.execute("ALTER TABLE t ADD COLUMN z INT"),
    lambda db: db.advance("2024-01-01"), lambda db: db.execute("BEGIN"), lambda db: db.view("v").to_arrow(),
    lambda db: db.view("v").count(), lambda db: db.close(),
])  # fmt: skip
def test_one_that_uses_its_database_is_refused(use: Callable[[freshet.Connection], object]) -> None:
    """It would find, or leave, the state half changed: transactions were lost, and some never ended."""
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT)")
    db.execute("CREATE TABLE u (a INT)")
    using, caught = False, list[str]()

    def body(x: pa.Array) -> pa.Array:
        try:
            if using:
                use(db)
        except freshet.StateError as e:
            caught.append(str(e))
            if 13 in x.to_pylist():
                raise
        return x

    db.create_function("f", body, returns="INT")
    view = db.create_view("v", "SELECT f(a) AS r, COUNT(*) AS n FROM t GROUP BY f(a)")
    using = True
    db.apply({"t": [(1,), (1,)]})
    assert caught == ["function f uses the database that calls it; pass it what it needs"]
    with pytest.raises(freshet.ChangeError, match=r"function f fails for the row .13.: StateError: function f uses"):
        db.apply({"t": [(13,)]})
    using = False
    assert view.to_arrow().to_pylist() == [{"r": 1, "n": 2}] and db.version == 1
    assert list(db.views) == ["v"] and db.query("SELECT * FROM u").num_rows == 0


def test_one_may_use_another_database() -> None:
    db, other = freshet.connect(), freshet.connect()
    other.execute("CREATE TABLE names (id INT PRIMARY KEY, name STRING)")
    other.apply({"names": [(1, "one")]})
    named = other.create_view("named", "SELECT id, name FROM names")
    db.execute("CREATE TABLE t (a INT)")
    db.create_function("name_of", lambda x: [(named.get(v) or {}).get("name") for v in x.to_pylist()], returns="STRING")
    view = db.create_view("v", "SELECT name_of(a) AS name FROM t")
    db.apply({"t": [(1,), (2,)]})
    assert sorted(view.to_arrow().to_pylist(), key=str) == [{"name": "one"}, {"name": None}]
