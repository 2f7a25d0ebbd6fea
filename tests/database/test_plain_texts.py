"""Texts of columns that no operator reads are plain: the random test has tables with such columns, which views, indexes
and queries begin to read at some point, next to a model in Python and DuckDB."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import inside
from freshet.durable.record import rows_payload
from freshet.durable.record import stored as rows_in
from freshet.engine.table import Table
from freshet.errors import ChangeError
from freshet.state import heap, strings
from tests.durable.small import end
from tests.oracle import RunningSum, duckdb_answer, same_bag

DDL = """
    CREATE TABLE w (id BIGINT PRIMARY KEY, g INT, note STRING, title STRING NOT NULL, raw BINARY, code STRING);
    CREATE TABLE p (g INT PRIMARY KEY, name STRING, more STRING)
"""
SCHEMAS = {
    "w": pa.schema([
        ("id", pa.int64()), ("g", pa.int32()), ("note", pa.string()), ("title", pa.string()), ("raw", pa.binary()),
        ("code", pa.string()),
    ]),
    "p": pa.schema([("g", pa.int32()), ("name", pa.string()), ("more", pa.string())]),
}  # fmt: skip
KEYS = {"w": "id", "p": "g"}
VIEWS = (
    "SELECT g, COUNT(*) AS n, SUM(id) AS total FROM w GROUP BY g",
    "SELECT w.id, p.g FROM w JOIN p ON w.g = p.g",
    "SELECT note, COUNT(*) AS n FROM w GROUP BY note",
    "SELECT DISTINCT title FROM w",
    "SELECT id, note, title FROM w WHERE code = 'eight888'",
    "SELECT w.id, p.more FROM w JOIN p ON w.note = p.name",
    "SELECT a.id, b.id AS other FROM w AS a JOIN w AS b ON a.title = b.title WHERE a.g < b.g",
    "SELECT g, MIN(note) AS least, MAX(code) AS most FROM w GROUP BY g",
    "SELECT UPPER(more) AS loud, COUNT(*) AS n FROM p GROUP BY UPPER(more)",
    "SELECT note AS t FROM w UNION ALL SELECT name FROM p",
    "SELECT id FROM w WHERE note IN (SELECT more FROM p)",
    "SELECT raw, COUNT(*) AS n FROM w GROUP BY raw",
)
TEXTS = (
    "", "a", "b", "same", "seven77", "seven7", "eight888", "eight889", "a longer text", "a longer texT", "ünï 😀",
    "equal in many rows, and longer than a word or two of memory",
)  # fmt: skip

Row = dict[str, Any]


class Case:
    """A database, and its rows by primary key."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng, self.folder = rng, folder
        self.db = freshet.connect(folder)
        self.db.execute(DDL)
        self.rows: dict[str, dict[int, Row]] = {"w": {}, "p": {}}
        self.sums: dict[str, RunningSum] = {}
        self.texts = 0

    # Values ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        self.texts += 1
        return self.rng.choice(TEXTS) if self.rng.random() < 0.8 else f"another text, number {self.texts}"

    def row(self, table: str, key: int) -> Row:
        null = self.rng.random() < 0.15
        if table == "p":
            return {"g": key, "name": None if null else self.text(), "more": self.text()}
        return {
            "id": key, "g": self.rng.randrange(4), "note": None if null else self.text(), "title": self.text(),
            "raw": self.rng.choice([None, b"", b"\xff\xfe", self.text().encode()]), "code": self.text(),
        }  # fmt: skip

    def changed(self, table: str, row: Row) -> Row:
        """The row with another text, which may be equal."""
        column = self.rng.choice(["note", "title", "code"] if table == "w" else ["name", "more"])
        return {**row, column: self.text()}

    # Changes --------------------------------------------------------------------------------------------------

    def draw(self, table: str, rows: dict[int, Row]) -> tuple[list[tuple[Row, int]], dict[int, Row]]:
        """Signed rows, and what they make of the rows."""
        after, signed = dict(rows), list[tuple[Row, int]]()
        for key in self.rng.sample(range(30 if table == "w" else 5), self.rng.choice([1, 2, 4, 5])):
            old = after.get(key)
            if old is not None:
                signed.append((old, -1))
                del after[key]
            kind = self.rng.random()
            if old is None or kind < 0.6:
                new = self.row(table, key) if old is None or kind < 0.2 else self.changed(table, old)
                signed.append((new, 1))
                after[key] = new
            elif kind < 0.7:
                signed.append((old, 1))  # put back
                after[key] = old
        return signed, after

    def given(self, table: str, signed: list[tuple[Row, int]], whole: bool = False) -> Any:
        """The signed rows in one of the forms that rows can have; `whole`: deleted rows have all their values."""
        form = self.rng.choice(["arrow", "large", "dicts", "feed"])
        rows = [{**row, "_weight": weight} for row, weight in signed]
        if form == "dicts":
            return rows
        if form == "feed":
            return [
                {**({KEYS[table]: row[KEYS[table]]} if sign < 0 and not whole and self.rng.random() < 0.5 else row),
                 "_change_type": "insert" if sign > 0 else "delete"}
                for row, sign in signed
            ]  # fmt: skip
        made = pa.Table.from_pylist(rows, SCHEMAS[table].append(pa.field("_weight", pa.int64())))
        if form == "arrow":
            return made.slice(0) if self.rng.random() < 0.5 else pa.concat_tables([made.slice(0, 1), made.slice(1)])
        large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
        return made.cast(pa.schema([(f.name, large.get(f.type, f.type)) for f in made.schema]))

    def apply(self) -> None:
        changes, after = {}, dict(self.rows)
        for table in self.rng.sample(["w", "p"], self.rng.choice([1, 2])):
            signed, after[table] = self.draw(table, self.rows[table])
            changes[table] = self.given(table, signed)
        self.published(self.db.apply(changes), after)

    def published(self, tx: Any, after: dict[str, dict[int, Row]]) -> None:
        self.rows = after
        for name, total in self.sums.items():
            if name in tx.deltas:
                total.add(tx.deltas[name])

    def upsert(self) -> None:
        rows = [self.row("w", key) for key in self.rng.sample(range(30), self.rng.choice([1, 3, 12]))]
        tx = self.db.apply({"w": [{**row, "_change_type": "upsert"} for row in rows]})
        self.published(tx, {**self.rows, "w": {**self.rows["w"], **{row["id"]: row for row in rows}}})

    def refused(self) -> None:
        """A delete of a row whose text differs, an insert of a key that exists: nothing changes."""
        if not self.rows["w"]:
            return
        row = self.rng.choice([*self.rows["w"].values()])
        column = self.rng.choice(["note", "title", "code"])
        other = {**row, column: f"{row[column]}x" if self.rng.random() < 0.8 else "another text of some length"}
        sign = self.rng.choice([1, -1])
        with pytest.raises(ChangeError):
            self.db.apply({"w": self.given("w", [(self.row("w", 99), 1), (other, sign)], whole=True)})

    def statement(self) -> None:
        w = dict(self.rows["w"])
        kind, text = self.rng.randrange(4), self.text()
        if kind == 0:
            tx = self.db.execute("UPDATE w SET code = ? WHERE g = 1", [text])
            w = {k: {**r, "code": text} if r["g"] == 1 else r for k, r in w.items()}
        elif kind == 1:
            tx = self.db.execute("UPDATE w SET note = CONCAT(title, '+'), g = 2 WHERE title = ?", [text])
            w = {k: {**r, "note": r["title"] + "+", "g": 2} if r["title"] == text else r for k, r in w.items()}
        elif kind == 2:
            tx = self.db.execute("DELETE FROM w WHERE note = ?", [text])
            w = {k: r for k, r in w.items() if r["note"] != text}
        else:
            tx = self.db.execute("DELETE FROM w WHERE code IN (SELECT name FROM p WHERE g < 2)")
            names = {r["name"] for r in self.rows["p"].values() if r["g"] < 2}
            w = {k: r for k, r in w.items() if r["code"] not in names}
        self.published(tx, {**self.rows, "w": w})

    def session(self) -> None:
        """A transaction of several statements, which reads its writes; it is committed or rolled back."""
        before, commits = self.rows, self.rng.random() < 0.5

        class RollBackError(Exception):
            pass

        try:
            with self.db.transaction() as tx:
                rows = dict(before["w"])
                for _ in range(self.rng.choice([1, 2, 4])):
                    signed, rows = self.draw("w", rows)
                    tx.apply({"w": self.given("w", signed)})
                    if self.rng.random() < 0.3:
                        self.same(tx.query("SELECT note, COUNT(*) AS n FROM w GROUP BY note"), {"w": rows})
                    if self.rng.random() < 0.3:
                        self.elsewhere(lambda: self.same(self.db.query("SELECT * FROM w"), before))
                self.same(tx.query("SELECT * FROM w"), {"w": rows})
                if not commits:
                    raise RollBackError
        except RollBackError:
            return
        if tx.version > 0:
            self.published(tx, {**before, "w": rows})

    def elsewhere(self, check: Callable[[], None]) -> None:
        """Checks in another thread, which does not see an open transaction."""
        failures: list[BaseException] = []

        def run() -> None:
            try:
                check()
            except BaseException as e:
                failures.append(e)

        other = threading.Thread(target=run)
        other.start()
        other.join()
        if failures:
            raise failures[0]

    # Definitions ----------------------------------------------------------------------------------------------

    def define(self) -> None:
        known = [*self.db.views]
        if known and self.rng.random() < 0.3:
            name = self.rng.choice(known)
            self.db.execute(f"DROP VIEW {name}")
            self.sums.pop(name, None)
        number = self.rng.randrange(len(VIEWS))
        if f"v{number}" not in [*self.db.views]:
            self.watch(self.db.create_view(f"v{number}", VIEWS[number]))
            if number == 4 and self.rng.random() < 0.7:
                self.db.execute("CREATE INDEX ON v4 (note)")

    def watch(self, view: freshet.View) -> None:
        self.sums[view.name] = RunningSum(view.to_arrow())

    def reopen(self) -> None:
        if self.rng.random() < 0.5:
            self.db.close()
        else:
            end(self.db)
        self.db = freshet.connect(self.folder)
        self.sums = {}
        for view in self.db.views.values():
            self.watch(view)

    def alter(self) -> None:
        """Copies the rows to a table with another column, and back."""
        self.db.execute("ALTER TABLE w ADD COLUMN extra STRING")
        for name in list(self.sums):  # views stay, and are rebuilt
            self.watch(self.db.view(name))
        self.check()
        self.db.execute("ALTER TABLE w DROP COLUMN extra")

    # Checks ---------------------------------------------------------------------------------------------------

    def tables(self, rows: dict[str, dict[int, Row]] | None = None) -> dict[str, pa.Table]:
        rows = self.rows if rows is None else rows
        return {name: pa.Table.from_pylist([*held.values()], SCHEMAS[name]) for name, held in rows.items()}

    def same(self, answer: pa.Table, rows: dict[str, dict[int, Row]]) -> None:
        """Whether it is the answer to the query over those rows of w."""
        sql = "SELECT * FROM w" if answer.num_columns > 2 else "SELECT note, COUNT(*) AS n FROM w GROUP BY note"
        same_bag(answer, duckdb_answer(sql, {"w": self.tables(rows)["w"]}))

    def ask(self) -> None:
        sql = self.rng.choice([
            "SELECT title, COUNT(*) AS n FROM w GROUP BY title", "SELECT DISTINCT note FROM w", "SELECT code FROM w",
            "SELECT a.id FROM w AS a JOIN p ON a.code = p.more", "SELECT id FROM w WHERE note = 'same' OR title > 'b'",
            "SELECT name FROM p INTERSECT SELECT code FROM w", "SELECT id, note FROM w WHERE id = 3",
            "SELECT COUNT(DISTINCT raw) AS n FROM w", "SELECT id, LENGTH(more) AS l FROM w JOIN p ON w.g = p.g",
        ])  # fmt: skip
        same_bag(self.db.query(sql), duckdb_answer(sql, self.tables()))

    def check(self) -> None:
        tables = self.tables()
        for name, held in tables.items():
            answer = self.db.query(f"SELECT * FROM {name}")
            same_bag(answer.select(held.column_names), held)
        for view in self.db.views.values():
            number = int(view.name.removeprefix("v"))
            same_bag(view.to_arrow(), duckdb_answer(VIEWS[number], tables))
            self.sums[view.name].equals(view.to_arrow())


@pytest.mark.parametrize("seed", range(12))
def test_random(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    steps = [Case.apply] * 8 + [Case.upsert, Case.refused, Case.statement, Case.statement, Case.session, Case.session]
    steps += [Case.ask, Case.reopen, *[Case.alter] * (seed % 3 == 0), *[Case.define] * (seed % 4 > 0)]
    with (
        patch.object(strings, "_LEAST_SWEEP", 1),
        patch.object(strings, "_LEAST_BYTES", 1),
        patch.object(heap, "_LEAST", rng.choice([0, 200])),
        patch.object(heap, "_MOST", rng.choice([1 << 34, 1 << 34, 2_000])),
    ):
        case = Case(rng, tmp_path / "db")
        for _ in range(50):
            rng.choice(steps)(case)
            case.check()
        case.db.close()


def stored(db: freshet.Database, name: str = "w") -> Table:
    return inside(db).state.core.tables[name]


def test_which_columns_are_plain() -> None:
    """A view interns the columns it reads, also by a filter; a query that reads a table as it is interns none."""
    db = freshet.connect()
    db.execute(DDL)
    db.execute("CREATE TABLE bag (s STRING); CREATE TABLE k (s STRING PRIMARY KEY, v ARRAY<STRING>)")
    db.apply({"w": [{"id": 1, "g": 1, "note": "n", "title": "a long title", "raw": b"r", "code": "c"}]})

    def plain(table: str = "w") -> list[str]:
        fields = db.catalog.tables[table].fields
        return [f.name for i, f in enumerate(fields) if stored(db, table).is_plain(i)]

    assert plain() == ["note", "title", "raw", "code"] and plain("p") == ["name", "more"]
    assert plain("bag") == plain("k") == []
    db.create_view("counted", "SELECT g, COUNT(*) AS n FROM w GROUP BY g")
    assert db.query("SELECT * FROM w WHERE title LIKE 'a long%'").num_rows == 1
    assert db.query("SELECT note FROM w WHERE id = 1").to_pylist() == [{"note": "n"}]
    assert plain() == ["note", "title", "raw", "code"] and inside(db).state.core.pool.live == 0
    db.create_view("some", "SELECT id, UPPER(note) AS u FROM w WHERE code <> 'x'")
    assert plain() == ["title", "raw"] and inside(db).state.core.pool.live == 3  # with the upper case
    db.execute("DROP VIEW some")
    assert db.query("SELECT title, COUNT(*) AS n FROM w GROUP BY title").to_pylist() == [
        {"title": "a long title", "n": 1}
    ]
    assert db.query("SELECT title FROM w").to_pylist() == [{"title": "a long title"}]


def test_texts_of_removed_rows_are_freed() -> None:
    """Also those of transactions that are refused or rolled back, and all memory in the end."""
    db = freshet.connect()
    db.execute("CREATE TABLE w (id BIGINT PRIMARY KEY, note STRING)")
    db.create_view("fails", "SELECT SUM(1000 / id) AS s FROM w")

    def rows(first: int, weight: int) -> pa.Table:
        ids = range(first, first + 1_000)
        notes = [f"{i} {'long ' * 20}" for i in ids]
        return pa.table({"id": ids, "note": notes, "_weight": pa.array([weight] * 1_000)})

    with patch.object(heap, "_LEAST", 10_000):
        for first in range(1, 40_000, 1_000):
            db.apply({"w": rows(first, 1)})
            if first > 2_000:
                db.apply({"w": rows(first - 2_000, -1)})
            with pytest.raises(ChangeError):
                db.apply({"w": pa.concat_tables([rows(50_000, 1), rows(50_000, 1)])})
            with pytest.raises(ChangeError):
                db.apply({"w": rows(-500, 1)})
            try:
                with db.transaction() as tx:
                    tx.apply({"w": rows(70_000, 1)})
                    raise KeyError
            except KeyError:
                pass
            assert stored(db).text_bytes < 1_000_000
        assert db.query("SELECT COUNT(*) AS n FROM w WHERE LENGTH(note) > 100").to_pylist() == [{"n": 2_000}]
        db.execute("DELETE FROM w")
        assert stored(db).text_bytes == 0


def test_a_log_of_the_last_version_is_read() -> None:
    """Records have the same form whether texts are plain or not."""
    payloads = []
    for reads in (False, True):
        db = freshet.connect()
        db.execute("CREATE TABLE w (id BIGINT PRIMARY KEY, note STRING)")
        if reads:
            db.create_view("v", "SELECT note FROM w")
        db.apply(
            {"w": [{"id": 1, "note": "a text of some length"}, {"id": 2, "note": "short"}, {"id": 3, "note": None}]}
        )
        payloads.append(rows_payload([(stored(db), *rows_in(stored(db), stored(db).tuples.slots()))]))
    assert payloads[0] == payloads[1]


def test_refused_rows_and_rollbacks_leave_no_texts() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE w (id BIGINT PRIMARY KEY, note STRING)")
    db.apply({"w": [{"id": 1, "note": "a text of some length"}]})
    before = stored(db).text_bytes
    new = [{"id": i, "note": f"{i} {'long ' * 20}"} for i in range(1, 101)]
    with pytest.raises(ChangeError):
        db.apply({"w": new})
    with pytest.raises(ChangeError):
        db.apply({"w": [{**row, "_change_type": "insert"} for row in new]})
    assert stored(db).text_bytes == before > 0
    with patch.object(heap, "_LEAST", 10_000):
        for _ in range(20):
            with db.transaction() as tx:
                tx.apply({"w": new[1:]})
                tx.rollback()
    assert stored(db).text_bytes < 50_000


def test_a_full_heap_in_the_middle_of_a_statement() -> None:
    """Then the columns are interned, the rows included that the statement replaces."""
    with patch.object(heap, "_MOST", 3_000):
        db = freshet.connect()
        db.execute("CREATE TABLE w (id BIGINT PRIMARY KEY, n INT, note STRING)")
        db.apply({"w": [{"id": i, "n": 0, "note": f"{i} is a text of some length"} for i in range(60)]})
        assert stored(db).is_plain(2)
        db.execute("UPDATE w SET n = 1")
        assert not stored(db).is_plain(2)
        answer = db.query("SELECT * FROM w")
    expected = [{"id": i, "n": 1, "note": f"{i} is a text of some length"} for i in range(60)]
    same_bag(answer, pa.Table.from_pylist(expected, answer.schema))
