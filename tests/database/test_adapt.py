"""Views that move to other join trees: the answer and the deltas are those of views that stay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings, target
from hypothesis import strategies as st

import freshet
from freshet.database import adapt
from freshet.database.adapt import Following
from freshet.database.db import inside
from freshet.engine.query import Select
from freshet.plans import build_plan
from tests.oracle import RunningSum, duckdb_answer, same_bag
from tests.small_tables import TableModel, transactions

QUERIES = {
    "chain": "SELECT t0.a, t1.b, t2.c FROM t0 JOIN t1 ON t0.b = t1.b JOIN t2 ON t1.c = t2.c",
    "totals": "SELECT t1.b, COUNT(*) AS n, SUM(t2.a) AS s FROM t0 JOIN t1 ON t0.b = t1.b JOIN t2 ON t1.c = t2.c"
    " GROUP BY t1.b",
    "shown": "SELECT DISTINCT t1.b FROM t0 JOIN t1 ON t0.b = t1.b JOIN t2 ON t1.c = t2.c",
    "joined again": "SELECT t0.a, n.n FROM t0 JOIN t1 ON t0.b = t1.b"
    " JOIN (SELECT c, COUNT(*) AS n FROM t2 GROUP BY c) AS n ON n.c = t1.c",
    "outer": "SELECT t0.a, t1.b, t2.c FROM t0 JOIN t1 ON t0.b = t1.b LEFT JOIN t2 ON t1.c = t2.c",
    "exists": "SELECT t0.a FROM t0 JOIN t1 ON t0.b = t1.b"
    " WHERE EXISTS (SELECT * FROM t2 JOIN t1 AS u ON t2.b = u.b WHERE t2.c = t0.c)",
    "compared": "SELECT t0.a, t1.a AS x, t2.a AS y FROM t0 JOIN t1 ON t0.b = t1.b"
    " JOIN t2 ON t1.c = t2.c AND t2.a < t1.a",
    "triangle": "SELECT t0.a, t1.b, t2.c FROM t0 JOIN t1 ON t0.b = t1.a JOIN t2 ON t1.b = t2.a AND t2.b = t0.a",
    "either": "SELECT t0.b FROM t0 JOIN t1 ON t0.a = t1.a JOIN t2 ON t1.b = t2.b UNION SELECT c FROM t2",
    "first": "SELECT t0.a, t2.b FROM t0 JOIN t1 ON t0.b = t1.b JOIN t2 ON t1.c = t2.c"
    " ORDER BY t0.a NULLS LAST, t2.b NULLS LAST LIMIT 3",
}
OVER = "SELECT c.a, COUNT(*) AS n FROM chain AS c JOIN t2 ON t2.c = c.c GROUP BY c.a"
OVER_ORACLE = f"SELECT c.a, COUNT(*) AS n FROM ({QUERIES['chain']}) AS c JOIN t2 ON t2.c = c.c GROUP BY c.a"
EVERY = freshet.Adapt(ratio=1.0, paying=0.0, patience=1)


class Followed:
    """Views compared with DuckDB, by their answers and by a subscriber's deltas."""

    def __init__(self, db: freshet.Database, names: list[str]) -> None:
        self.db, self.names = db, names
        for name in names:
            db.create_view(name, QUERIES[name])
        if "chain" in names:
            db.create_view("over", OVER)
        self.subscribe()

    def subscribe(self) -> None:
        self.sums = {name: RunningSum(view.to_arrow()) for name, view in self.db.views.items()}
        for name, view in self.db.views.items():
            view.subscribe(partial(self.hear, name))

    def hear(self, name: str, tx: freshet.Transaction) -> None:
        self.sums[name].add(tx.deltas[name])

    def agree(self, tables: list[TableModel]) -> None:
        rows = {t.name: t.arrow() for t in tables}
        for name, view in self.db.views.items():
            expected = duckdb_answer(OVER_ORACLE if name == "over" else QUERIES[name], rows)
            same_bag(view.to_arrow(), expected)
            self.sums[name].equals(view.to_arrow())
            assert view.count() == expected.num_rows

    def move(self, name: str, changes: dict[str, float]) -> None:
        """To the plan these numbers of changes would have."""
        view = self.db.view(name)
        plan = freshet.Plan(view.plan.sql, build_plan(self.db.catalog.views[name], changes))
        inside(self.db).views.move(name, plan, "the test says so")
        assert inside(view).following.chosen.failed is None and view.plan == plan

    @property
    def moves(self) -> int:
        return int(self.db.metrics()["tree_switches"])


def some_tables(data: st.DataObject) -> list[TableModel]:
    return [TableModel(f"t{i}", data.draw(st.booleans())) for i in range(3)]


def made(data: st.DataObject, tables: list[TableModel], when: bool | freshet.Adapt, names: list[str]) -> Followed:
    db = freshet.connect(adapt=when)
    for table in tables:
        db.execute(table.ddl)
    db.apply(data.draw(transactions(tables)))
    return Followed(db, names)


some_names = st.lists(st.sampled_from(sorted(QUERIES)), min_size=1, max_size=3, unique=True)
some_changes = st.fixed_dictionaries({f"t{i}": st.sampled_from((0.0, 1.0, 100.0)) for i in range(3)})


@settings(max_examples=max(10, settings().max_examples // 4))
@given(st.data())
def test_moved_at_random(data: st.DataObject) -> None:
    """To any tree, at any moment, also several times between two transactions."""
    tables = some_tables(data)
    followed = made(data, tables, False, data.draw(some_names))
    for _ in range(data.draw(st.integers(1, 6))):
        for name in data.draw(st.lists(st.sampled_from(sorted(followed.db.views)), max_size=2)):
            before = followed.db.view(name).plan
            followed.move(name, data.draw(some_changes))
            event(f"another tree: {followed.db.view(name).plan != before}")
        followed.agree(tables)
        followed.db.apply(data.draw(transactions(tables)))
        followed.agree(tables)


@settings(max_examples=max(10, settings().max_examples // 4))
@given(st.data())
def test_a_view_switches_trees_by_itself(data: st.DataObject) -> None:
    """Checking after every transaction, and switching to any cheaper tree."""
    tables = some_tables(data)
    followed = made(data, tables, EVERY, data.draw(some_names))
    for _ in range(data.draw(st.integers(1, 8))):
        hot = data.draw(st.sampled_from(tables))
        followed.db.apply(data.draw(transactions(data.draw(st.sampled_from((tables, [hot]))))))
        followed.agree(tables)
    target(float(followed.moves))
    event(f"moves: {min(followed.moves, 3)}")


@pytest.mark.parametrize("name", [n for n in QUERIES if n not in ("either",)])
def test_there_are_other_trees(name: str) -> None:
    """So that the tests above can find something wrong."""
    db = freshet.connect()
    for i in range(3):
        db.execute(TableModel(f"t{i}", False).ddl)
    db.create_view(name, QUERIES[name])
    plans = {
        json.dumps([[n.relation, n.parent] for n in plan.nodes])
        for hot in range(3)
        for plan in [build_plan(db.catalog.views[name], {f"t{i}": 100.0 if i == hot else 0.0 for i in range(3)})]
        if hasattr(plan, "nodes")
    }
    assert len(plans) > 1 or name in ("first", "triangle", "outer", "joined again", "exists"), plans


# What a move is for ------------------------------------------------------------------------------------------------

CHAIN_DDL = (
    "CREATE TABLE a (x BIGINT, p INT); CREATE TABLE b (x BIGINT, y BIGINT, z BIGINT);CREATE TABLE c (y BIGINT, q INT)"
)
CHAIN = "SELECT p, b.x, b.y, b.z, q FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y"
WIDE = 1_000
ROWS = pa.table({"x": [0] * WIDE, "y": [0] * WIDE, "z": range(WIDE)})


def star(when: bool | freshet.Adapt = True) -> freshet.Database:
    """Every row of b joins the one of a, and the one of c: whichever of the two is below b, its flickering is paid
    for by all of b."""
    db = freshet.connect(adapt=when)
    db.execute(CHAIN_DDL)
    db.create_view("v", CHAIN)
    db.apply({"a": [{"x": 0}], "b": ROWS, "c": [{"y": 0}]})
    return db


def flicker(db: freshet.Database, name: str, times: int) -> None:
    column = {"a": "x", "c": "y"}[name]
    for _ in range(times):
        for weight in (-1, 1):
            db.apply({name: [{column: 0, "_weight": weight}]}, deltas=False)


def below(db: freshet.Database) -> str:
    """The relation that is attached to b."""
    tree = json.loads(db.view("v").explain("json"))["tree"]
    return str(next(n["relation"] for n in tree if n["parent"] > 0))


def test_a_hot_table_moves_up() -> None:
    """Nothing of the other table joins b, so the answer is empty all the while: every counter is paid in vain."""
    db = star(freshet.Adapt(patience=200))
    view, deep = db.view("v"), below(db)
    other, column = {"a": ("c", "y"), "c": ("a", "x")}[deep]
    flicker(db, other, 300)
    assert db.metrics()["tree_switches"] == 0, "what pays nothing stays"
    db.apply({other: [{column: 0, "_weight": -1}]})
    paid = []
    for _ in range(10):
        before = view.metrics()
        flicker(db, deep, 100)
        after = view.metrics()
        paid.append((after["counters_changed"] - before["counters_changed"]) / 200)
    assert paid[0] > WIDE / 2 and max(paid[3:]) <= 1, paid
    assert view.metrics()["tree_switches"] == 1 and below(db) == other and view.count() == 0
    said = view.explain()
    assert f"% of recent changes are of {deep}" in said and "moves so far: 1" in said
    chosen = json.loads(view.explain("json"))["chosen"]
    assert chosen["moves"] == 1 and chosen["since"] == view.metrics()["tree_since"] > 600
    assert db.apply({other: [{column: 0}]}).deltas["v"].num_rows == view.to_arrow().num_rows == WIDE


def test_the_same_stream_without_adapting() -> None:
    db = star(False)
    deep = below(db)
    flicker(db, deep, 300)
    assert db.metrics()["tree_switches"] == 0 and below(db) == deep
    assert db.view("v").metrics()["last_minute"]["counters_per_change"] > WIDE / 3


def test_views_do_not_oscillate_between_trees() -> None:
    """Changes that are equally distributed over both tables, or alternate between them, cause no switch."""
    db = star(freshet.Adapt(patience=50))
    for turn in range(40):
        for name in ("a", "c"):
            flicker(db, name, 10 if (name == "a") == (turn % 4 < 2) else 7)
    assert db.metrics()["tree_switches"] == 0


def test_following_back_and_forth() -> None:
    """A lasting shift of the changes is followed, each time once."""
    db = star(freshet.Adapt(patience=100))
    for turn in range(4):
        flicker(db, below(db), 500)
        assert db.metrics()["tree_switches"] == turn + 1


def test_a_plan_that_was_given_is_kept() -> None:
    db = star(EVERY)
    db.create_view("w", freshet.plan(CHAIN, CHAIN_DDL))
    plan = db.view("w").plan
    for name in ("a", "c", "a", "c"):
        flicker(db, name, 20)
    assert db.view("v").metrics()["tree_switches"] > 0
    assert db.view("w").plan is plan and "the plan was given" in db.view("w").explain()


def test_a_move_that_did_not_pay_is_taken_back() -> None:
    """The estimate is wrong if the hot table joins nothing below it: the measured cost decides to switch back."""
    db = freshet.connect(adapt=freshet.Adapt(ratio=1.0, paying=0.0, patience=100))
    db.execute(CHAIN_DDL)
    view = db.create_view("v", CHAIN)
    deep = below(db)
    other = {"a": "c", "c": "a"}[deep]
    keys = {"a": "x", "c": "y"}
    db.apply({"b": ROWS, other: [{keys[other]: 0}]}, deltas=False)
    # The deep table changes more often, where nothing joins it; the other one flickers under all of b.
    for _ in range(400):
        db.apply({deep: [{keys[deep]: i} for i in range(1, 7)]}, deltas=False)
        db.apply({deep: [{keys[deep]: i, "_weight": -1} for i in range(1, 7)]}, deltas=False)
        flicker(db, other, 1)
    assert below(db) == deep and "where it seemed better" in view.explain()
    assert view.metrics()["tree_switches"] <= 8, "looks at it less and less often"


# Everything around a move ------------------------------------------------------------------------------------------


def test_a_move_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    db = star(freshet.Adapt(patience=100))
    view, deep = db.view("v"), below(db)
    load = Select.load
    sizes = db.nbytes()

    def failing(self: Select, tables: Any) -> None:
        load(self, tables)
        raise MemoryError("no room for another tree")

    monkeypatch.setattr(Select, "load", failing)
    flicker(db, deep, 200)
    assert below(db) == deep and db.metrics()["tree_switches"] == 0
    assert "MemoryError: no room for another tree" in view.explain()
    assert db.nbytes() <= sizes + 10_000, "nothing is left of what was not finished"
    assert view.count() == WIDE
    monkeypatch.undo()
    heard: list[int] = []
    view.subscribe(lambda tx: heard.append(tx.deltas["v"].num_rows))
    db.execute("DELETE FROM a")
    assert heard == [WIDE] and view.count() == 0


def test_a_plan_that_cannot_be_built_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction before the check stays applied, and its subscribers are called."""
    db = star(freshet.Adapt(patience=100))
    deep, heard = below(db), []
    db.view("v").subscribe(lambda tx: heard.append(tx.version))

    def failing(*_: object) -> None:
        raise freshet.PlanError("no tree at all")

    monkeypatch.setattr(adapt, "build_plan", failing)
    flicker(db, deep, 200)
    assert heard == list(range(2, db.version + 1)) and below(db) == deep
    assert "PlanError: no tree at all" in db.view("v").explain() and db.view("v").count() == WIDE


def test_a_full_disk_at_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = freshet.connect(tmp_path / "db", adapt=False)
    db.execute(CHAIN_DDL)
    view = db.create_view("v", CHAIN)
    db.apply({"a": [{"x": 1}], "b": [{"x": 1, "y": 1}], "c": [{"y": 1}]})
    before = view.plan

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(type(inside(db).store), "save", full)
    for hot in ("a", "c"):
        plan = freshet.Plan(CHAIN, build_plan(db.catalog.views["v"], {"a": 0.0, "b": 0.0, "c": 0.0, hot: 9.0}))
        inside(db).views.move("v", plan, "")
    assert view.plan == before and "no space left" in view.explain()
    monkeypatch.undo()
    db.apply({"a": [{"x": 1}]})
    assert view.count() == 2
    db.close()
    with freshet.connect(tmp_path / "db") as again:
        assert again.view("v").count() == 2


def test_on_disk(tmp_path: Path) -> None:
    """A database that is opened again has the trees it had, and follows the data from there."""
    tables = [TableModel(f"t{i}", i == 0) for i in range(3)]
    db = freshet.connect(tmp_path / "db", adapt=False)
    for table in tables:
        db.execute(table.ddl)
    names = ["chain", "joined again"]
    followed = Followed(db, names)
    plans: dict[str, Any] = {}
    for step in range(3):
        for i, table in enumerate(tables):
            rows = [(10 * step + k, (k + i) % 3, (k * i + step) % 3) for k in range(5)]
            table.rows += rows
            db.apply({table.name: [dict(zip("abc", r, strict=True)) for r in rows]})
        for name in [*names, "over"]:
            followed.move(name, {f"t{i}": 100.0 if i == step % 3 else 0.0 for i in range(3)})
        followed.agree(tables)
        plans = {name: view.plan for name, view in db.views.items()}
        chosen = {name: inside(view).following.chosen for name, view in db.views.items()}
        spent = {name: view.metrics() for name, view in db.views.items()}
        db.close()
        followed.db = db = freshet.connect(tmp_path / "db", adapt=False)
        followed.subscribe()
        assert {name: view.plan for name, view in db.views.items()} == plans
        assert {name: inside(view).following.chosen for name, view in db.views.items()} == chosen
        for name, before in spent.items():
            for figure in ("changes", "counters_changed", "tree_switches"):
                assert db.view(name).metrics()[figure] == before[figure]
    folders = {array.name.split("/")[0] for array in inside(db).state.core.arena}
    assert sum(name.startswith("view") for name in folders) == len(plans), "old trees leave nothing behind"
    db.close()


def test_refused_transactions_after_a_move() -> None:
    """A transaction without an answer is rolled back: the view is rebuilt on its current tree."""
    db = freshet.connect(adapt=False)
    db.execute(CHAIN_DDL)
    sql = "SELECT b.x, 10 / c.y AS q FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y"
    view = db.create_view("v", sql)
    db.apply({"a": [{"x": 1}], "b": [{"x": 1, "y": y} for y in range(4)], "c": [{"y": 1}, {"y": 2}]})
    for hot in ("a", "c", "a"):
        plan = freshet.Plan(sql, build_plan(db.catalog.views["v"], {"a": 0.0, "b": 0.0, "c": 0.0, hot: 9.0}))
        inside(db).views.move("v", plan, "")
        spent = view.metrics()["changes"]
        with pytest.raises(freshet.ChangeError, match="no answer after it"):
            db.apply({"c": [{"y": 3}, {"y": 0}]})
        assert view.plan == plan and view.metrics()["changes"] == spent
        assert sorted(view.to_arrow().column("q").to_pylist()) == [5, 10]
        delta = db.apply({"c": [{"y": 2, "_weight": -1}]}).deltas["v"].to_pylist()
        assert delta == [{"x": 1, "q": 5.0, "_weight": -1}]
        db.apply({"c": [{"y": 2}]})


def test_subscribers_in_the_middle() -> None:
    """A subscriber that changes tables itself, with moves after every transaction: versions in order, none missed."""
    db = star(EVERY)
    view, total, versions = db.view("v"), RunningSum(db.view("v").to_arrow()), []

    def hear(tx: freshet.Transaction) -> None:
        versions.append(tx.version)
        total.add(tx.deltas["v"])
        if tx.version % 3 == 0:
            db.apply({"b": [{"x": 0, "y": 0, "z": tx.version}]})
        assert sum(b.num_rows for b in view.batches(100)) == view.count()

    view.subscribe(hear)
    for i in range(30):
        name, column = ("a", "x") if i % 10 < 5 else ("c", "y")
        for weight in (1, -1):
            db.apply({name: [{column: 0, "_weight": weight}]})
    assert versions == list(range(2, db.version + 1)) and db.metrics()["tree_switches"] > 1
    total.equals(view.to_arrow())


def test_reading_while_a_view_is_rebuilt() -> None:
    db = star(False)
    view = db.view("v")
    reading = view.batches(10)
    next(reading)
    inside(db).views.move("v", view.plan, "")
    with pytest.raises(freshet.StateError, match="rebuilt while it was read"):
        next(reading)


def test_settings() -> None:
    assert inside(freshet.connect()).views._adapt == freshet.Adapt()
    assert inside(freshet.connect(adapt=False)).views._adapt is None
    with pytest.raises(freshet.PlanError, match=r"ratio of 0\.5"):
        freshet.Adapt(ratio=0.5)
    with pytest.raises(freshet.PlanError, match="patience of 0"):
        freshet.Adapt(patience=0)


def test_trees_are_rarely_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two checks a transaction compares two numbers: the views are not even called."""
    db, asked = star(), []
    wait = Following.wait

    def asking(self: Following, counts: Mapping[str, int], rows: int) -> int:
        asked.append(rows)
        return wait(self, counts, rows)

    monkeypatch.setattr(Following, "wait", asking)
    flicker(db, "a", 500)
    assert len(asked) <= 1
