"""A log that is rewritten while transactions continue: at every moment the folder holds the whole database."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import freshet
from freshet.database.db import inside
from freshet.database.recover import recover
from freshet.durable import store as stores
from tests.inner import store_of

DDL = """CREATE TABLE keyed (k BIGINT PRIMARY KEY, s STRING); CREATE TABLE bag (x BIGINT, s STRING);
    CREATE MATERIALIZED VIEW v AS SELECT keyed.k, bag.x, bag.s FROM keyed JOIN bag ON keyed.s = bag.s"""


class Model:
    """Tables that change at random, and their contents."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.keyed: dict[int, str] = {}
        self.bag: Counter[tuple[int, str]] = Counter()

    def change(self) -> dict[str, list[dict[str, Any]]]:
        chance = self.chance
        keyed: list[dict[str, Any]] = []
        for k in chance.sample(range(40), chance.randrange(6)):
            if k in self.keyed:
                keyed.append({"k": k, "s": self.keyed.pop(k), "_weight": -1})
            if chance.random() < 0.6:
                self.keyed[k] = f"text {chance.randrange(8)}"
                keyed.append({"k": k, "s": self.keyed[k], "_weight": 1})
        bag: list[dict[str, Any]] = []
        for row in {(chance.randrange(8), f"text {chance.randrange(8)}") for _ in range(chance.randrange(5))}:
            weight = chance.choice([1, 1, 2, -self.bag[row] or 1, -1 if self.bag[row] else 1])
            self.bag[row] += weight
            bag.append({"x": row[0], "s": row[1], "_weight": weight})
        self.bag = +self.bag
        return {name: rows for name, rows in (("keyed", keyed), ("bag", bag)) if rows}

    def check(self, db: freshet.Database) -> None:
        keyed = {row["k"]: row["s"] for row in db.execute("SELECT * FROM keyed").to_pylist()}
        bag = Counter((row["x"], row["s"]) for row in db.execute("SELECT * FROM bag").to_pylist())
        assert keyed == self.keyed
        assert bag == self.bag
        joined = sum(n for (_, s), n in self.bag.items() for other in self.keyed.values() if other == s)
        assert db.view("v").count() == joined


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is always being rewritten."""
    monkeypatch.setattr(stores, "_LEAST", 1)
    monkeypatch.setattr(stores, "_TIMES", 0)
    monkeypatch.setattr(stores, "_SHARE", 0)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("piece", [4, 20])
def test_changes_while_it_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(stores, "_PIECE", piece)
    for seed in range(3):
        model, folder, logs = Model(seed), tmp_path / f"db{seed}", set()
        db = freshet.connect(folder, durability="os")
        db.execute(DDL)
        for number in range(90):
            db.apply(model.change())
            if number % 40 == 17:
                db.execute(f"CREATE TABLE other{number} (x BIGINT)")  # begins again
            if number % 30 == 11:
                with contextlib.suppress(freshet.ChangeError):
                    db.apply({"bag": [{"x": 99, "s": "not there", "_weight": -1}]})
            logs.add(store_of(db).log.id)
            if number % 5 == 0 or store_of(db).log.first + 2_000 > store_of(db).log.end:
                shutil.copytree(folder, tmp_path / "copy")
                with freshet.connect(tmp_path / "copy") as copy:
                    assert (copy.version, copy.changes) == (db.version, db.changes)
                    model.check(copy)
                shutil.rmtree(tmp_path / "copy")
        model.check(db)
        db.close()
        assert not (folder / "log.new").exists()
        assert len(logs) > 2  # it was rewritten, and more than once


@pytest.mark.usefixtures("often")
def test_a_view_follows_through_rewritings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_PIECE", 5)
    model = Model(5)
    db = freshet.connect(tmp_path, durability="os", retain=1_000)
    db.execute(DDL)
    for _ in range(60):
        db.apply(model.change())
    versions = [version for version, _ in db.view("v").changes(0, follow=False)]
    assert versions == list(range(1, 61))
    now = db.view("v").to_arrow()
    assert db.view("v").at(60).num_rows == now.num_rows


def test_the_log_stays_below_three_times_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_LEAST", 20_000)
    db = freshet.connect(tmp_path, durability="os")
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
    db.apply({"t": [{"k": k, "v": 0} for k in range(3_000)]})
    live, most, each = (tmp_path / "log").stat().st_size, 0, list[int]()
    for k in range(3_000):
        before = store_of(db)._rewriting
        db.apply({"t": [{"k": k, "v": 0, "_weight": -1}, {"k": k + 3_000, "v": 0, "_weight": 1}]})
        most = max(most, (tmp_path / "log").stat().st_size)
        if before is not None:
            each.append(before.log.end)
    assert most < 3 * live
    assert len(each) > 20  # spread over many transactions, each of which wrote at most its share
    db.close()


def outcome(folder: Path, base: int) -> str:
    """The result of opening a damaged folder: opened without its last record, recovered up to a version, or refused."""
    try:
        freshet.connect(folder).close()
        (folder / "checkpoint").unlink()
        return "opened"
    except freshet.StateError as e:
        if "freshet recover" not in str(e):
            return str(e)
    try:
        recovered = recover(folder)
    except freshet.StateError as e:
        return "refused" if "restore it from a copy" in str(e) else str(e)
    (folder / "log.damaged").unlink()
    return "recovered" if recovered.version >= base else f"recovered at version {recovered.version}"


@pytest.mark.usefixtures("often")
def test_damage_among_the_rows_a_log_begins_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the rows is not the state of any version."""
    monkeypatch.setattr(stores, "_PIECE", 3)
    model = Model(9)
    db = freshet.connect(tmp_path / "db", durability="os")
    db.execute(DDL)
    for _ in range(40):
        db.apply(model.change())
    store_of(db)._rewrite(inside(db).state)
    db.apply(model.change())
    log, base = tmp_path / "db" / "log", db.version - 1
    store_of(db).release()
    whole = log.read_bytes()
    outcomes = Counter[str]()
    for at in range(100, len(whole), 97):
        log.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        outcomes[outcome(tmp_path / "db", base)] += 1
    assert set(outcomes) <= {"opened", "recovered", "refused"}, outcomes
    assert outcomes["refused"] > 3
