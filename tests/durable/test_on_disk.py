"""A database in files: closed in one process, gone on with in another, each a real process of its own."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import textwrap
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import feather

import freshet
from freshet.durable import checkpoint
from tests.oracle import RunningSum, duckdb_answer, same_bag

ROOT = Path(__file__).resolve().parents[2]
DDL = """
    CREATE TABLE o (id BIGINT PRIMARY KEY, customer STRING NOT NULL, total DECIMAL(30, 2), day DATE);
    CREATE TABLE l (o BIGINT, body STRING, q DOUBLE);
"""
VIEWS = {
    "joined": "SELECT o.customer, l.body, l.q FROM o JOIN l ON l.o = o.id",
    "totals": "SELECT o.customer, SUM(o.total) AS total, MIN(l.body) AS least, MAX(l.q) AS most, AVG(l.q) AS mean,"
    " COUNT(DISTINCT l.body) AS bodies FROM o LEFT JOIN l ON l.o = o.id GROUP BY o.customer",
    "kinds": "SELECT DISTINCT l.body, o.day FROM o JOIN l ON l.o = o.id",
    "customers": "SELECT DISTINCT customer FROM o JOIN l ON l.o = o.id",
    "idle": "SELECT o.id FROM o WHERE NOT EXISTS (SELECT 1 FROM l WHERE l.o = o.id)",
    "nested": "SELECT n.customer, n.n, o.id FROM (SELECT customer, COUNT(*) AS n FROM o GROUP BY customer) n"
    " JOIN o ON o.customer = n.customer WHERE n.n > 1",
}


def transaction(step: int) -> dict[str, list[dict[str, Any]]]:
    """The changes of a step: rows are inserted, and those of two steps ago deleted; texts are always new."""
    changes: dict[str, list[dict[str, Any]]] = {"o": [], "l": []}
    for moved, weight in ((step, 1), (step - 2, -1)):
        for i in range(40) if moved >= 0 else ():
            key, day = moved * 100 + i, datetime.date(2010 + i % 5, 1 + i % 9, 1)
            order = {"id": key, "customer": f"c{(i + moved) % 7}", "total": Decimal(i) / 4, "day": day}
            changes["o"].append({**order, "_weight": weight})
            for j in range(i % 3):
                changes["l"].append({"o": key + j, "body": f"text {moved} {j}", "q": i / 3, "_weight": weight})
    return changes


def in_another_process(script: str, *args: object) -> str:
    """Runs the script, which has the names of this module and its arguments in `args`; returns its output."""
    head = "import sys\nfrom tests.durable.test_on_disk import *\nargs = sys.argv[1:]\n"
    places = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(script), *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": places},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def agrees(db: freshet.Database, sums: dict[str, RunningSum]) -> None:
    tables = {name: db.execute(f"SELECT * FROM {name}") for name in ("o", "l")}
    for name, sql in VIEWS.items():
        same_bag(db.view(name).to_arrow(), duckdb_answer(sql, tables))
        sums[name].equals(db.view(name).to_arrow())
        assert db.view(name).count() == db.view(name).to_arrow().num_rows > 0


def test_going_on_in_other_processes(tmp_path: Path) -> None:
    """Three processes run in turn; each continues with the state of the one before it, and a database in memory with
    all changes has the same answers at every step."""
    folder, twin = tmp_path / "db", freshet.connect()
    in_another_process(
        """
        with freshet.connect(args[0]) as db:
            db.execute(DDL)
            for name, sql in VIEWS.items():
                db.create_view(name, sql)
            for step in range(3):
                db.apply(transaction(step))
        """,
        folder,
    )
    twin.execute(DDL)
    for name, sql in VIEWS.items():
        twin.create_view(name, sql)
    for step in range(3):
        twin.apply(transaction(step))
    with freshet.connect(folder) as db:
        assert db.version == 3
        for name in VIEWS:
            same_bag(db.view(name).to_arrow(), twin.view(name).to_arrow())
        here, there = db.apply(transaction(3)), twin.apply(transaction(3))
        for name in VIEWS:
            same_bag(here.deltas[name], there.deltas[name])
    in_another_process(
        """
        with freshet.connect(args[0]) as db:
            tx = db.apply(transaction(4))
            for name in VIEWS:
                feather.write_feather(tx.deltas[name], f"{args[1]}/{name}")
        """,
        folder,
        tmp_path,
    )
    there = twin.apply(transaction(4))
    with freshet.connect(folder) as db:
        assert db.version == 5
        for name in VIEWS:
            same_bag(feather.read_table(tmp_path / name), there.deltas[name])
            same_bag(db.view(name).to_arrow(), twin.view(name).to_arrow())
        assert there.deltas["joined"].num_rows > 0
        agrees(db, {name: RunningSum(twin.view(name).to_arrow()) for name in VIEWS})


def test_deltas_go_on_after_attaching(tmp_path: Path) -> None:
    sums: dict[str, RunningSum] = {}
    for step in range(8):
        with freshet.connect(tmp_path) as db:
            if step == 0:
                db.execute(DDL)
                for name, sql in VIEWS.items():
                    sums[name] = RunningSum(db.create_view(name, sql).to_arrow())
            assert db.version == step
            tx = db.apply(transaction(step))
            for name, total in sums.items():
                total.add(tx.deltas[name])
            agrees(db, sums)


def test_texts_and_keys_are_swept_on_disk_too(tmp_path: Path) -> None:
    """Files do not grow although every text is new, over many attachments."""
    sizes = []
    for turn in range(6):
        with freshet.connect(tmp_path) as db:
            if turn == 0:
                db.execute("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
                db.create_view("v", "SELECT a.s, COUNT(*) AS n FROM t a JOIN t b ON a.s = b.s GROUP BY a.s")
            for i in range(4):
                rows = [{"id": j, "s": f"text {turn} {i} {j:06}"} for j in range(1_500)]
                db.apply({"t": rows})
                assert db.view("v").count() == 1_500
                db.apply({"t": [{"id": j, "_weight": -1} for j in range(1_500)]})
        sizes.append((tmp_path / "checkpoint").stat().st_size)
    assert sizes[-1] <= 1.25 * sizes[2], sizes


def test_after_a_drop(tmp_path: Path) -> None:
    with freshet.connect(tmp_path) as db:
        db.execute(DDL)
        db.create_view("joined", VIEWS["joined"])
        db.create_view("totals", VIEWS["totals"])
        db.apply(transaction(0))
        db.execute("DROP VIEW joined")
        db.execute("CREATE TABLE extra (a INT); DROP TABLE extra; CREATE TABLE extra (a STRING)")
        db.apply({"extra": [{"a": "text"}]})
    arrays = _arrays(tmp_path)
    with freshet.connect(tmp_path) as db:
        assert list(db.views) == ["totals"]
        with pytest.raises(freshet.PlanError, match="no view joined"):
            db.view("joined")
        assert db.execute("SELECT a FROM extra").to_pylist() == [{"a": "text"}]
        db.create_view("joined", VIEWS["joined"])
        db.apply(transaction(1))
        tables = {name: db.execute(f"SELECT * FROM {name}") for name in ("o", "l")}
        for name in ("joined", "totals"):
            same_bag(db.view(name).to_arrow(), duckdb_answer(VIEWS[name], tables))
        db.execute("DROP VIEW joined")
    assert _arrays(tmp_path) == arrays, "a dropped view leaves no arrays"


def _arrays(folder: Path) -> set[str]:
    saved = checkpoint.read(folder / "checkpoint")
    assert not isinstance(saved, str), saved
    return set(saved[1])


def test_views_over_views_are_found_again(tmp_path: Path) -> None:
    with freshet.connect(tmp_path) as db:
        db.execute(DDL)
        db.create_view("base", "SELECT o.customer, l.q FROM o JOIN l ON l.o = o.id")
        db.create_view("above", "SELECT customer, SUM(q) AS q FROM base GROUP BY customer")
        db.apply(transaction(0))
        before = db.view("above").to_arrow()
    with freshet.connect(tmp_path) as db:
        same_bag(db.view("above").to_arrow(), before)
        db.create_view("later", "SELECT COUNT(*) AS n FROM above")
        assert db.view("later").to_arrow()["n"][0].as_py() == before.num_rows


def test_views_over_a_view_that_is_created_again(tmp_path: Path) -> None:
    with freshet.connect(tmp_path) as db:
        db.execute("CREATE TABLE t (a INT, b INT)")
        db.create_view("base", "SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        db.create_view("above", "SELECT SUM(n) AS s FROM base")
        db.apply({"t": [{"a": 1}, {"a": 2}]})
    with freshet.connect(tmp_path) as db:
        with pytest.raises(freshet.PlanError, match="view above reads view base"):
            db.execute("DROP VIEW base")
        db.execute("DROP VIEW base CASCADE; CREATE MATERIALIZED VIEW base AS SELECT b AS n FROM t")
        db.create_view("above", "SELECT SUM(n) AS s FROM base")
    with freshet.connect(tmp_path) as db:
        assert db.view("above").to_arrow().to_pylist() == [{"s": None}]
        db.apply({"t": [{"a": 1, "b": 100}]})
        assert db.view("above").to_arrow().to_pylist() == [{"s": 100}]
        assert db.create_view("more", "SELECT above.s, base.n FROM above, base WHERE n > 5").count() == 1


def test_a_refused_transaction_leaves_nothing_on_disk(tmp_path: Path) -> None:
    with freshet.connect(tmp_path) as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
        view = db.create_view("v", "SELECT id, 10 / x AS r FROM t")
        db.apply({"t": [{"id": 1, "x": 2}]})
        with pytest.raises(freshet.ChangeError):
            db.apply({"t": [{"id": 1, "x": 3}]})
        with pytest.raises(freshet.ChangeError):
            db.apply({"t": [{"id": 2, "x": 0}]})
        before = view.to_arrow()
    with freshet.connect(tmp_path) as db:
        assert db.version == 1
        same_bag(db.view("v").to_arrow(), before)
        assert db.apply({"t": [{"id": 2, "x": 5}]}).deltas["v"].to_pylist() == [{"id": 2, "r": 2.0, "_weight": 1}]


def test_refused_while_in_use(tmp_path: Path) -> None:
    with freshet.connect(tmp_path) as db:
        db.execute("CREATE TABLE t (id INT)")
        with pytest.raises(freshet.StateError, match="in use by process"):
            freshet.connect(tmp_path)
        out = in_another_process(
            """
            try:
                freshet.connect(args[0])
            except freshet.StateError as e:
                print(e)
            """,
            tmp_path,
        )
        assert "in use by process" in out
        db.apply({"t": [{"id": 1}]})
    with freshet.connect(tmp_path) as db:
        assert db.execute("SELECT id FROM t").num_rows == 1


def test_recovered_when_it_was_not_closed(tmp_path: Path) -> None:
    """A process that ends without closing has acknowledged its transactions."""
    script = """
        db = freshet.connect(args[0])
        db.execute(DDL)
        for name, sql in VIEWS.items():
            db.create_view(name, sql)
        for step in range(4):
            db.apply(transaction(step))
        {}
    """
    for i, ending in enumerate(("", "sys.exit(0)", "os._exit(0)")):
        in_another_process(script.replace("{}", ending), tmp_path / str(i))
        assert not (tmp_path / str(i) / "checkpoint").exists()
        with freshet.connect(tmp_path / str(i)) as db:
            assert db.version == 4 and list(db.views) == list(VIEWS)
            sums = {name: RunningSum(db.view(name).to_arrow()) for name in VIEWS}
            tx = db.apply(transaction(4))
            for name, total in sums.items():
                total.add(tx.deltas[name])
            agrees(db, sums)


def test_refused_when_a_newer_version_wrote_it(tmp_path: Path) -> None:
    with freshet.connect(tmp_path) as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
    log = tmp_path / "log"
    kept = log.read_bytes()
    head = kept[:16] + (99).to_bytes(4, "little") + kept[20:56]
    log.write_bytes(head + zlib.crc32(head).to_bytes(4, "little") + kept[60:])
    with pytest.raises(freshet.StateError, match="newer version"):
        freshet.connect(tmp_path)
    log.write_bytes(kept)
    with freshet.connect(tmp_path) as db:
        assert db.execute("SELECT id FROM t").num_rows == 1
