"""Memory that is no longer needed is returned, answers are unchanged, and inserts never cause a sweep."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import freshet
from freshet.database.db import inside
from freshet.engine.core import Core
from freshet.engine.join import Join
from freshet.state.keys import Dictionary

ROWS = 120_000
TABLES = """CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, note STRING);
    CREATE TABLE lines (order_id BIGINT, price BIGINT)"""
VIEWS = {
    "joined": "SELECT o.id, o.note, l.price FROM orders AS o JOIN lines AS l ON l.order_id = o.id",
    "grouped": "SELECT note, COUNT(*) AS n, MAX(customer) AS m FROM orders GROUP BY note",
    "different": "SELECT DISTINCT price FROM lines",
    "ranked": "SELECT order_id, price FROM lines ORDER BY price DESC, order_id LIMIT 10",
}


def orders(first: int, last: int) -> pa.Table:
    ids = np.arange(first, last)
    return pa.table({"id": ids, "customer": ids % 1000, "note": [f"note of the order {i // 2}" for i in ids]})


def lines(first: int, last: int) -> pa.Table:
    ids = np.arange(first, last)
    return pa.table({"order_id": ids, "price": ids // 3})


def less(table: pa.Table) -> pa.Table:
    return table.append_column("_weight", pa.array(np.full(len(table), -1)))


def made(folder: Path | None) -> freshet.Database:
    db = freshet.connect(folder, durability="os")
    db.execute(TABLES)
    for name, sql in VIEWS.items():
        db.create_view(name, sql)
    return db


def answers(db: freshet.Database) -> dict[str, list[str]]:
    return {name: sorted(map(str, db.view(name).to_arrow().to_pylist())) for name in VIEWS}


@pytest.mark.parametrize(("left", "share"), [(0, 0.1), (3_000, 0.25)])
def test_deleting_gives_memory_and_files_back(tmp_path: Path, left: int, share: float) -> None:
    db = made(tmp_path / "db")
    least = inside(db).state.memory.held
    heard = list[int]()
    db.view("joined").subscribe(lambda tx: heard.append(tx.deltas["joined"].num_rows))
    for start in range(0, ROWS, 30_000):
        db.apply({"orders": orders(start, start + 30_000), "lines": lines(start, start + 30_000)})
    held = inside(db).state.memory.held
    for start in range(left, ROWS, 39_000):
        end = min(start + 39_000, ROWS)
        db.apply({"orders": less(orders(start, end)), "lines": less(lines(start, end))})
    assert db.tuples() == 2 * left
    assert inside(db).state.memory.held - least < share * held
    assert sum(heard) == 2 * ROWS - left
    size = (tmp_path / "db" / "log").stat().st_size
    assert size < 5_000_000  # it held more than ten, and is at most three times the rows, or four megabytes
    other = made(None)
    other.apply({"orders": orders(0, left), "lines": lines(0, left)})
    assert answers(db) == answers(other)
    for each in (db, other):
        each.apply({"orders": orders(ROWS, ROWS + 500), "lines": lines(ROWS - 100, ROWS + 400)})
    assert answers(db) == answers(other)
    db.close()
    files = sum(file.stat().st_size for file in (tmp_path / "db").iterdir())
    assert files < 3_000_000 + share * held
    with freshet.connect(tmp_path / "db") as again:
        assert answers(again) == answers(other)


def test_inserts_are_never_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    db, swept = made(None), list[str]()
    monkeypatch.setattr(Core, "sweep", lambda core: swept.append("text"))
    monkeypatch.setattr(Dictionary, "sweep", lambda self, marked: swept.append("keys"))
    for start in range(0, 40_000, 2_000):
        db.apply({"orders": orders(start, start + 2_000), "lines": lines(start, start + 2_000)})
    assert not swept
    db.apply({"orders": less(orders(0, 39_000)), "lines": less(lines(0, 39_000))})
    assert set(swept) == {"text", "keys"}


def numbered(first: int) -> pa.Table:
    return pa.table({"k": np.arange(first, first + 1_000), "v": np.arange(1_000)})


def test_unused_keys_are_freed() -> None:
    """Ever new keys, each there for a while: the dictionaries of edges stay as small as the window."""
    db = freshet.connect()
    db.execute("CREATE TABLE a (k BIGINT, v BIGINT); CREATE TABLE b (k BIGINT, v BIGINT)")
    view = db.create_view("j", "SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k")
    join: Join = inside(view).operator.join  # type: ignore[attr-defined]
    for start in range(0, 60_000, 1_000):
        changes = [numbered(start)] if start < 3_000 else [numbered(start), numbered(start - 3_000)]
        weights = np.concatenate([np.full(1_000, 1 - 2 * i) for i in range(len(changes))])
        change = pa.concat_tables(changes).append_column("_weight", pa.array(weights))
        db.apply({"a": change, "b": change})
        assert max(dictionary.tuples.live for dictionary, _ in join.swept) <= 12_000
    assert view.count() == 3_000


def run(code: str) -> str:
    """The output of a separate process."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_gives_memory_back_to_the_system() -> None:
    """Not only state, but also free memory of the allocators. Compared with the process before it had rows."""
    code = """
        from freshet.budget import resident
        from tests.database.test_quiet_memory import ROWS, less, lines, made, orders
        db = made(None)
        for turn in range(2):
            before = resident()
            for start in range(0, ROWS, 10_000):
                db.apply({"orders": orders(start, start + 10_000), "lines": lines(start, start + 10_000)})
            most = resident()
            for start in range(0, ROWS, 10_000):
                db.apply({"orders": less(orders(start, start + 10_000)), "lines": less(lines(start, start + 10_000))})
        print(before, most, resident())
    """
    before, most, left = map(int, run(textwrap.dedent(code)).split())
    assert most - before > 20 << 20
    assert left - before < 0.3 * (most - before), (before, most, left)


FIRST = {
    "joins and groups": "SELECT a.s, COUNT(*) AS n, SUM(b.n) AS total FROM a JOIN b ON a.s = b.s GROUP BY a.s",
    "windows": "SELECT id, ROW_NUMBER() OVER (PARTITION BY s ORDER BY x DESC) AS r FROM a",
    "filters": "SELECT UPPER(s) AS u FROM a WHERE s LIKE 't%'",
    "comparisons": "SELECT a.id, b.n FROM a LEFT JOIN b ON b.s = a.s AND a.x < b.n",
    "cycles": "SELECT COUNT(*) AS n FROM b AS p JOIN b AS q ON p.n = q.m JOIN b AS r ON q.n = r.m AND r.n = p.m",
    "extremes": "SELECT s, MIN(x) AS least, MAX(d) AS last, COUNT(DISTINCT id) AS n, AVG(f) AS f FROM a GROUP BY s",
}


@pytest.mark.parametrize("kind", FIRST)
@pytest.mark.parametrize("opened", [False, True])
def test_the_first_transactions_load_nothing(kind: str, opened: bool, tmp_path: Path) -> None:
    """Their kernels were called when the view was created or opened: no kernel is loaded in them."""
    code = f"""
        import datetime, decimal, freshet
        from freshet.state.kernel_cache import KERNELS
        db = freshet.connect({str(tmp_path / "db")!r}, durability="os")
        if {not opened}:
            db.execute("CREATE TABLE a (id BIGINT PRIMARY KEY, s STRING, x DECIMAL(12,2), d DATE, f DOUBLE)")
            db.execute("CREATE TABLE b (s STRING, n BIGINT, m BIGINT)")
            db.create_view("v", {FIRST[kind]!r})
        before = KERNELS.attached()
        def row(i, weight):
            a = dict(id=i, s=f"t{{i % 5}}", x=decimal.Decimal(i), d=datetime.date(2020, 1, 1 + i % 20), f=i / 3)
            return dict(a, _weight=weight), dict(s=f"t{{i % 7}}", n=i % 9, m=i % 4, _weight=weight)
        for i in range(60):
            rows = [row(i, 1)] + ([row(i - 20, -1)] if i > 20 else [])
            tx = db.apply({{"a": [a for a, _ in rows], "b": [b for _, b in rows]}})
            tx.deltas["v"], db.view("v").to_arrow(), db.view("v").count()
        print(before, KERNELS.attached())
    """
    if opened:
        with freshet.connect(tmp_path / "db", durability="os") as db:
            db.execute("CREATE TABLE a (id BIGINT PRIMARY KEY, s STRING, x DECIMAL(12,2), d DATE, f DOUBLE)")
            db.execute("CREATE TABLE b (s STRING, n BIGINT, m BIGINT)")
            db.create_view("v", FIRST[kind])
    before, after = map(int, run(textwrap.dedent(code)).split())
    assert before > 10 and after == before
