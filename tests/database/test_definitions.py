"""CREATE and DROP over chains of tables and views: a table or view stays as long as it is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import freshet
from freshet.database.db import inside
from freshet.errors import PlanError, SqlError

NAMES = ("a", "b", "c", "d", "e", "f", "g")


def views_of(db: freshet.Database) -> list[str]:
    return list(db.views)


@pytest.fixture
def db() -> freshet.Database:
    made = freshet.connect()
    made.execute(
        "CREATE TABLE t (x INT); CREATE MATERIALIZED VIEW low AS SELECT x FROM t WHERE x < 10;"
        "CREATE MATERIALIZED VIEW Twice AS SELECT 2 * x AS x FROM low;"
        "CREATE MATERIALIZED VIEW both AS SELECT low.x FROM low JOIN twice ON low.x = twice.x;"
        "CREATE MATERIALIZED VIEW apart AS SELECT COUNT(*) AS n FROM t"
    )
    made.apply({"t": [{"x": i} for i in range(20)]})
    return made


def test_a_view_that_is_read_is_not_dropped(db: freshet.Database) -> None:
    with pytest.raises(
        PlanError,
        match=r"^views both, twice read view low; drop them first, in this order, or write DROP VIEW low CASCADE$",
    ):
        db.execute("DROP VIEW low")
    with pytest.raises(
        PlanError, match=r"^view both reads view TWICE; drop the view first, or write DROP VIEW TWICE CASCADE$"
    ):
        db.execute("DROP MATERIALIZED VIEW IF EXISTS TWICE RESTRICT")
    with pytest.raises(PlanError, match=r"^views apart, both, twice, low read table t; .* DROP TABLE t CASCADE$"):
        db.execute("DROP TABLE IF EXISTS t")
    assert views_of(db) == ["low", "twice", "both", "apart"] and db.view("both").count() == 5
    db.execute("DROP VIEW both; DROP VIEW twice; DROP VIEW low")
    assert views_of(db) == ["apart"]


def test_cascade(db: freshet.Database) -> None:
    gone = db.view("both")
    db.execute("DROP VIEW low CASCADE")
    assert views_of(db) == ["apart"]
    with pytest.raises(freshet.StateError, match="view both was dropped"):
        gone.to_arrow()
    db.execute("DROP VIEW IF EXISTS low CASCADE; DROP TABLE IF EXISTS nothing CASCADE")
    db.execute("DROP TABLE t CASCADE")
    assert views_of(db) == [] and db.tuples() == 0
    with pytest.raises(SqlError, match="no table t; known tables and views: none"):
        db.execute("DROP TABLE t CASCADE")


def test_a_view_created_again_has_its_new_definition(db: freshet.Database) -> None:
    db.execute("DROP VIEW low CASCADE; CREATE MATERIALIZED VIEW low AS SELECT x FROM t WHERE x > 17")
    db.create_view("twice", "SELECT 2 * x AS x FROM low")
    assert sorted(db.view("twice").to_arrow()["x"].to_pylist()) == [36, 38]


def test_within_one_text(db: freshet.Database) -> None:
    """A statement sees the drops of those before it, with all dependent views; if one is invalid, none is run."""
    with pytest.raises(SqlError, match="no table both"):
        db.execute("DROP VIEW low CASCADE; SELECT * FROM both")
    with pytest.raises(PlanError, match="view n reads view m"):
        db.execute(
            "CREATE MATERIALIZED VIEW m AS SELECT x FROM t; CREATE MATERIALIZED VIEW n AS SELECT x FROM m; DROP VIEW m"
        )
    assert views_of(db) == ["low", "twice", "both", "apart"]


def test_a_name_that_is_hidden_is_not_read(db: freshet.Database) -> None:
    """A common table expression of the same name, an alias, a column: none of them is the view."""
    db.create_view("cte", "WITH both AS (SELECT x FROM t) SELECT both.x AS low FROM both")
    db.create_view("alias", "SELECT both.x FROM t AS both")
    db.execute("DROP VIEW both")
    assert db.view("cte").count() == db.view("alias").count() == 20


def test_reading_in_a_subquery_counts(db: freshet.Database) -> None:
    db.create_view("asks", "SELECT x FROM t WHERE x IN (SELECT x FROM apart JOIN low ON low.x = apart.n)")
    db.create_view("values_of", "SELECT x, (SELECT MAX(n) FROM apart) AS n FROM t")
    with pytest.raises(PlanError, match="views values_of, asks read view apart"):
        db.execute("DROP VIEW apart")


def test_tables_that_a_plan_does_without_are_read_all_the_same(db: freshet.Database) -> None:
    db.execute("CREATE TABLE u (y INT)")
    db.create_view("nothing", "SELECT t.x FROM t LEFT JOIN (SELECT DISTINCT y FROM u) AS s ON s.y = t.x")
    with pytest.raises(PlanError, match="view nothing reads table u"):
        db.execute("DROP TABLE u")


def test_texts_of_definitions() -> None:
    """`freshet.plan` reads tables and views as DDL text."""
    ddl = "CREATE TABLE t (x INT); CREATE MATERIALIZED VIEW v AS SELECT x FROM t; "
    ddl += "CREATE MATERIALIZED VIEW w AS SELECT x FROM v; "
    with pytest.raises(PlanError, match="view w reads view v"):
        freshet.plan("SELECT x FROM w", ddl + "DROP VIEW v")
    with pytest.raises(SqlError, match="no table w"):
        freshet.plan("SELECT x FROM w", ddl + "DROP VIEW v CASCADE")


def test_who_reads_whom_is_kept_on_disk(tmp_path: Path) -> None:
    with freshet.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE t (x INT); CREATE MATERIALIZED VIEW v AS SELECT x FROM t")
        db.create_view("w", "SELECT x FROM v")
    with freshet.connect(tmp_path / "db") as db:
        with pytest.raises(PlanError, match="view w reads view v"):
            db.execute("DROP VIEW v")
        db.execute("DROP VIEW v CASCADE")
    with freshet.connect(tmp_path / "db") as db:
        assert views_of(db) == []


def test_definitions_that_do_not_say_who_reads_whom(tmp_path: Path) -> None:
    """As versions kept them that did not note it down; there, a view could outlive the one it read."""
    with freshet.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE t (x INT); CREATE TABLE u (x INT)")
        for name, sql in (("v", "SELECT x FROM t"), ("w", "SELECT x FROM v"), ("old", "SELECT x + 1 AS x FROM v")):
            db.create_view(name, sql)
        v, w, old = (dict(definition) for definition in inside(db).state.definitions.values())
    for view in (v, w, old):
        del view["reads"]

    def restored(*views: dict[str, object]) -> freshet.Database:
        made = freshet.connect()
        made.execute("CREATE TABLE t (x INT); CREATE TABLE u (x INT)")
        made.apply({"t": [{"x": 1}, {"x": 2}], "u": [{"x": 7}]})
        for view in views:
            inside(made).views.restore(dict(view))
        return made

    with restored(v, w, old) as db:
        with pytest.raises(PlanError, match="views old, w read view v"):
            db.execute("DROP VIEW v")
        db.apply({"t": [{"x": 3}]})
        assert sorted(db.view("old").to_arrow()["x"].to_pylist()) == [2, 3, 4]
    with restored(w, old, v) as db:  # v was dropped and created again
        db.execute("DROP VIEW v")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT x FROM u")
        with pytest.raises(PlanError, match="views old, w read table t"):
            db.execute("DROP TABLE t")
        db.apply({"t": [{"x": 4}]})
        assert sorted(db.view("w").to_arrow()["x"].to_pylist()) == [1, 2, 4]
        assert db.view("v").to_arrow()["x"].to_pylist() == [7]


class Definitions(RuleBasedStateMachine):
    """Random definitions over chains of tables and views, against a twin that holds texts and bags of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.db = freshet.connect(self._place())
        self.tables: dict[str, Counter[int]] = {}
        self.views: dict[
            str, tuple[tuple[str, ...], int]
        ] = {}  # in order of creation: the names it reads, and a number

    def _place(self) -> Path | None:
        return None

    def teardown(self) -> None:
        self.db.close()

    def answer(self, name: str) -> Counter[int]:
        if name in self.tables:
            return self.tables[name]
        below, number = self.views[name]
        counts: Counter[int] = Counter()
        for each in below:
            for x, n in self.answer(each).items():
                if x % 5 != number % 5:
                    counts[(x * 3 + number) % 50] += n
        return counts

    def readers(self, name: str) -> list[str]:
        """All views that go with a name, those made last first."""
        gone = {name}
        for view, (below, _) in self.views.items():
            if gone & set(below):
                gone.add(view)
        return [view for view in reversed(self.views) if view in gone - {name}]

    @rule(name=st.sampled_from(NAMES))
    def create_table(self, name: str) -> None:
        if name in self.tables or name in self.views:
            with pytest.raises(SqlError, match="already exists"):
                self.db.execute(f"CREATE TABLE {name} (x BIGINT)")
        else:
            self.db.execute(f"CREATE TABLE {name} (x BIGINT)")
            self.tables[name] = Counter()

    @precondition(lambda self: self.tables)
    @rule(name=st.sampled_from(NAMES), number=st.integers(0, 9), data=st.data())
    def create_view(self, name: str, number: int, data: st.DataObject) -> None:
        below = data.draw(st.lists(st.sampled_from(sorted({*self.tables, *self.views})), min_size=1, max_size=2))
        parts = [f"SELECT (x * 3 + {number}) % 50 AS x FROM {b.upper()} WHERE x % 5 <> {number % 5}" for b in below]
        sql = f"CREATE MATERIALIZED VIEW {name} AS {' UNION ALL '.join(parts)}"
        if name in self.tables or name in self.views:
            with pytest.raises(SqlError, match="already exists"):
                self.db.execute(sql)
        else:
            self.db.execute(sql)
            self.views[name] = tuple(below), number

    @rule(
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(["TABLE", "VIEW"]),
        cascade=st.booleans(),
        lenient=st.booleans(),
    )
    def drop(self, name: str, kind: str, cascade: bool, lenient: bool) -> None:
        sql = f"DROP {kind}{' IF EXISTS' * lenient} {name}{' CASCADE' * cascade}"
        readers = self.readers(name)
        if name not in (self.tables if kind == "TABLE" else self.views):
            if lenient:
                self.db.execute(sql)
            else:
                with pytest.raises(SqlError):
                    self.db.execute(sql)
        elif readers and not cascade:
            said = f"views? {', '.join(readers)} reads? {kind.lower()} {name}; .* CASCADE$"
            with pytest.raises(PlanError, match=said):
                self.db.execute(sql)
        else:
            self.db.execute(sql)
            for gone in (*readers, name):
                self.views.pop(gone, None)
            self.tables.pop(name, None)

    @precondition(lambda self: self.tables)
    @rule(values=st.lists(st.integers(0, 49), max_size=6), data=st.data())
    def insert(self, values: list[int], data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tables)))
        before = {view: self.answer(view) for view in self.views}
        tx = self.db.apply({name: [{"x": x} for x in values]})
        self.tables[name] += Counter(values)
        assert set(tx.deltas) == set(self.views)
        for view in self.views:
            counts: Counter[int] = Counter()
            for row in tx.deltas[view].to_pylist():
                counts[row["x"]] += row["_weight"]
            assert counts == self.answer(view) - before[view]

    @invariant()
    def agree(self) -> None:
        assert views_of(self.db) == list(self.views) and set(inside(self.db).state.row_counts()) <= set(self.tables)
        for view in self.views:
            assert Counter(self.db.view(view).to_arrow()["x"].to_pylist()) == self.answer(view)


class DefinitionsOnDisk(Definitions):
    """The same in files, closed and opened again in between."""

    def _place(self) -> Path | None:
        import tempfile

        self.held = tempfile.TemporaryDirectory()
        return Path(self.held.name) / "db"

    def teardown(self) -> None:
        super().teardown()
        self.held.cleanup()

    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = freshet.connect(Path(self.held.name) / "db")


TestDefinitions: Any = Definitions.TestCase
TestDefinitionsOnDisk: Any = DefinitionsOnDisk.TestCase
TestDefinitionsOnDisk.settings = settings(max_examples=max(5, settings.default.max_examples // 5))  # type: ignore[union-attr]
