"""Table functions in Python, next to DuckDB's UNNEST over the same rows."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import freshet
from tests.oracle import RunningSum, duckdb_answer, same_bag

DDL = "CREATE TABLE t (id INT PRIMARY KEY, k INT, s STRING)"


def words(text: pa.Array, by: pa.Array) -> list[list[tuple[str, int]] | None]:
    """The words of each text, with their lengths."""
    pairs = zip(text.to_pylist(), by.to_pylist(), strict=True)
    return [None if line is None else [(w, len(w)) for w in line.split(sep)] for line, sep in pairs]


def arrow_words(text: pa.Array, by: pa.Array) -> pa.Array:
    """The same as an Arrow array."""
    split = pc.split_pattern(text, by[0].as_py()) if len(text) else pa.array([], pa.list_(pa.string()))
    rows = pa.StructArray.from_arrays([split.values, pc.utf8_length(split.values)], ["word", "length"])
    return pa.ListArray.from_arrays(split.offsets, rows, mask=pc.is_null(text))


#: Views, and what they are in DuckDB.
VIEWS = {
    "lateral": (
        "SELECT t.id, w.word, w.length FROM t, LATERAL words(t.s, ' ') AS w",
        "SELECT id, w, length(w) FROM (SELECT id, UNNEST(string_split(s, ' ')) AS w FROM t)",
    ),
    "grouped": (
        "SELECT word, COUNT(*) AS n, SUM(length + k) AS l FROM t LATERAL VIEW words(s, ' ') w GROUP BY word",
        """SELECT w, COUNT(*), SUM(length(w) + k) FROM (SELECT k, UNNEST(string_split(s, ' ')) AS w FROM t)
        GROUP BY w""",
    ),
    "outer": (
        "SELECT id, a FROM t LATERAL VIEW OUTER words(s, ' ') w AS a, b",
        "SELECT id, UNNEST(CASE WHEN s IS NULL THEN [NULL] ELSE string_split(s, ' ') END) FROM t",
    ),
    "joined": (
        """SELECT x.id, y.id AS other FROM (SELECT t.id, w.word FROM t, LATERAL words(s, ' ') AS w) AS x
        JOIN t AS y ON x.word = y.s""",
        "SELECT x.id, y.id FROM (SELECT id, UNNEST(string_split(s, ' ')) AS w FROM t) x JOIN t y ON x.w = y.s",
    ),
    "constant": (
        "SELECT t.id, c.word FROM t, words('a b', ' ') AS c WHERE t.k = c.length",
        "SELECT id, c.w FROM t, (SELECT UNNEST(['a', 'b']) AS w) c WHERE k = 1",
    ),
}


@pytest.mark.parametrize("body", [words, arrow_words])
def test_rows_follow(body: object) -> None:
    chosen, db = random.Random(3), freshet.connect()
    db.create_function("Words", body, returns="TABLE(word STRING, length INT)")  # type: ignore[arg-type]
    db.execute(DDL)
    views = {name: db.create_view(f"v_{name}", sql) for name, (sql, _) in VIEWS.items()}
    totals = {name: RunningSum(view.to_arrow()) for name, view in views.items()}
    for number in range(25):
        rows = [
            {"id": i, "k": chosen.randrange(3), "s": chosen.choice((None, "", "a", "b a", "a a c", " ")),
             "_change_type": "upsert"}
            for i in chosen.sample(range(12), 4)
        ]  # fmt: skip
        tx = db.apply({"t": rows})
        if number % 4 == 3:
            tx = db.execute(f"DELETE FROM t WHERE k = {chosen.randrange(3)}")
        tables = {"t": db.query("SELECT * FROM t")}
        for name, view in views.items():
            if number % 4 != 3:
                totals[name].add(tx.deltas[f"v_{name}"])
                totals[name].equals(view.to_arrow())
            else:
                totals[name] = RunningSum(view.to_arrow())
            same_bag(view.to_arrow(), duckdb_answer(VIEWS[name][1], tables))
            same_bag(db.query(VIEWS[name][0]), view.to_arrow())


def test_errors_name_the_function_and_the_row() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.create_function("strict", lambda s: [[(int(v),)] for v in s.to_pylist()], returns="TABLE(n INT)")
    view = db.create_view("v", "SELECT id, n FROM t, LATERAL strict(s) AS x")
    db.apply({"t": [(1, 1, "7")]})
    with pytest.raises(freshet.ChangeError, match=r"function strict fails for the row \('x'\): ValueError: invalid"):
        db.apply({"t": [(2, 1, "8"), (3, 1, "x")]})
    assert view.to_dicts() == [{"id": 1, "n": 7}]
    db.create_function("uneven", lambda s: [[(1, 2)] for _ in s], returns="TABLE(n INT)")
    with pytest.raises(freshet.ChangeError, match=r"uneven fails for the row .* the row \(1, 2\) for the columns n"):
        db.query("SELECT n FROM uneven('a')")
    db.create_function("other", lambda s: [[{"m": 1}] for _ in s], returns="TABLE(n INT)")
    with pytest.raises(freshet.ChangeError, match=r"it gave the row .* for the columns n"):
        db.query("SELECT n FROM other('a')")
    db.create_function("named", lambda s: arrow_words(s, pa.array([" "])), returns="TABLE(w STRING, n INT)")
    with pytest.raises(freshet.ChangeError, match="not lists of structs of w, n"):
        db.query("SELECT n FROM named('a b')")
    db.create_function("few", lambda s: [], returns="TABLE(n INT)")
    with pytest.raises(freshet.FreshetError, match="it gave 0 values for 1 rows"):
        db.query("SELECT id, n FROM t, LATERAL few(s) AS x")


def test_what_is_refused() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.create_function("luck", lambda s: [[(1,)] for _ in s], returns="TABLE(n INT)", deterministic=False)
    with pytest.raises(freshet.UnsupportedError, match="function luck, which is not deterministic, in a view"):
        db.create_view("v", "SELECT n FROM t, LATERAL luck(s) AS x")
    assert db.query("SELECT n FROM luck('a')").to_pylist() == [{"n": 1}]
    db.create_function("one", lambda s: s, returns="STRING")
    with pytest.raises(freshet.UnsupportedError, match="LATERAL of anything but a subquery"):
        db.query("SELECT 1 AS a FROM t, LATERAL one(s) AS x")
    with pytest.raises(freshet.SqlError, match="cannot return"):
        db.create_function("none", words, returns="TABLE()")
    with pytest.raises(freshet.SqlError, match="has 1 columns, but 2 are named"):
        db.query("SELECT a FROM luck('a') AS x(a, b)")


def test_a_folder_whose_views_call_them(tmp_path: Path) -> None:
    with freshet.connect(tmp_path / "db") as db:
        db.create_function("words", words, returns="TABLE(word STRING, length INT)")
        db.execute(DDL)
        db.create_view("v", VIEWS["grouped"][0])
        db.apply({"t": [(1, 1, "a b")]})
    with freshet.connect(tmp_path / "db", functions={"words": words}) as db:
        db.apply({"t": [(2, 1, "a")]})
        assert {row["word"]: row["n"] for row in db.view("v").to_dicts()} == {"a": 2, "b": 1}
        db.create_view("more", VIEWS["lateral"][0])
        assert db.view("more").count() == 3
