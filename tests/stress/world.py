"""The shared data of the threads of a stress run: tables with self-checking rows, and views over them. Law: a row's
text is a function of its numbers, so a reader can detect a wrong text at any version. And the deltas of a view, added
up in order of versions, are its answer: what any reader found at version v is compared, when all is over, with the sum
of the deltas up to v.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import freshet
from freshet.database import state_copy
from freshet.database.views import Views
from freshet.engine import crew
from freshet.state import arena
from freshet.state.arena import Growable
from freshet.state.strings import StringPool
from tests.oracle import RunningSum

DDL = """
    CREATE TABLE item (id BIGINT PRIMARY KEY, n BIGINT NOT NULL, owner STRING NOT NULL, body STRING);
    CREATE TABLE owner (name STRING PRIMARY KEY, region STRING);
    CREATE TABLE event (owner STRING, kind STRING);
"""
VIEWS = {
    "plain": "SELECT id, n, owner, body FROM item",
    "joined": "SELECT i.id, i.n, i.body, o.region FROM item i JOIN owner o ON o.name = i.owner",
    "left_out": "SELECT i.id, i.n, i.body, o.region FROM item i LEFT JOIN owner o ON o.name = i.owner AND i.n > 3",
    "totals": "SELECT o.region, COUNT(*) AS c, SUM(i.n) AS s, MIN(i.body) AS least FROM item i JOIN owner o"
    " ON o.name = i.owner GROUP BY o.region",
    "first_ones": "SELECT id, n, body FROM item ORDER BY body, id LIMIT 7",
    "numbered": "SELECT id, n, body, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY body, id) AS r FROM item"
    " WHERE id % 5 = 0",
    "lists": "SELECT owner, ARRAY_AGG(body) AS bodies FROM item WHERE id % 7 = 0 GROUP BY owner",
    "loud": "SELECT DISTINCT UPPER(body) AS body FROM item WHERE id % 3 = 0",
    "unknown": "SELECT owner FROM event EXCEPT SELECT name FROM owner",
    "kinds": "SELECT kind, COUNT(*) AS n FROM event GROUP BY kind",
    "triangles": "SELECT a.kind FROM event a JOIN event b ON a.kind = b.kind JOIN owner o ON o.name = b.owner"
    " AND o.name = a.owner",
    "shares": "SELECT id, 1000 / n AS share FROM item WHERE id % 2 = 0",
    "above": "SELECT region, MAX(s) AS s FROM totals GROUP BY region",
}
OWNERS = 23


def body(key: int, n: int) -> str:
    return f"{key}:{n}:" + chr(97 + key % 26) * ((key * 7919 + n * 31) % 90)


def owner(key: int) -> str:
    return f"owner number {key % OWNERS}"


def item(key: int, n: int, **more: Any) -> dict[str, Any]:
    return {"id": key, "n": n, "owner": owner(key), "body": body(key, n), **more}


def check(view: str, rows: pa.Table | pa.RecordBatch, random: Random) -> None:
    """Checks some of the rows against their numbers."""
    names = rows.schema.names
    if not rows.num_rows:
        return
    for at in random.sample(range(rows.num_rows), min(rows.num_rows, 40)):
        row = dict(zip(names, (rows.column(i)[at].as_py() for i in range(len(names))), strict=True))
        if "id" in row and "body" in row:
            assert row["body"] == body(row["id"], row["n"]), (view, row)
        elif view == "loud":
            key, n, _ = row["body"].split(":")
            assert row["body"] == body(int(key), int(n)).upper(), (view, row)
        if view == "plain":
            assert row["owner"] == owner(row["id"]), (view, row)
        if row.get("region") is not None:
            assert row["region"].startswith("region of owner number "), (view, row)
        if view == "lists":
            for text in row["bodies"]:
                key, n, _ = text.split(":")
                assert text == body(int(key), int(n)) and owner(int(key)) == row["owner"], (view, row)
        if view == "shares":
            assert row["share"] >= 1, (view, row)


class Restless:
    """State that moves about after every third transaction or so: the pool is swept, or all arrays go to other memory,
    as growth does with one, and the old memory is freed. Every other reader or so reads a copy. Several threads take
    each change to the views."""

    def __init__(self, seed: int) -> None:
        self._random, self._patch = Random(seed), pytest.MonkeyPatch()

    def __enter__(self) -> Restless:
        follow = Views.follow

        def follow_and_move(views: Views) -> None:
            follow(views)
            if self._random.random() < 0.3:
                for array in views._state.core.arena:
                    move(array)

        begin = state_copy._Patience.__init__

        def begin_some(patience: state_copy._Patience, seconds: float) -> None:
            begin(patience, seconds if self._random.random() < 0.5 else -1.0)

        self._patch.setattr(state_copy._Patience, "__init__", begin_some)
        self._patch.setattr(StringPool, "wants_sweep", lambda pool: self._random.random() < 0.3)
        self._patch.setattr(Views, "follow", follow_and_move)
        self._patch.setattr(crew, "_WORTHWHILE", 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def move(array: Growable) -> None:
    if array._file is None:
        moved = arena.allocate(array.data.shape, array.data.dtype)
        moved[...] = array.data
        array.data, array._map, array._range = moved, None, None  # it grows from here, not in its old range
    else:
        array._remap(len(array.data))
    array.changed()


class World:
    """The database under stress, its recorded answers, and the errors."""

    def __init__(self, folder: Path | None) -> None:
        self.db = freshet.connect(folder, adapt=freshet.Adapt(ratio=1.0, paying=0.0, patience=500), threads=3)
        self.db.execute(DDL)
        for name, sql in VIEWS.items():
            self.db.create_view(name, sql)
        self.db.execute("CREATE INDEX ON plain (owner)")
        self.stop = threading.Event()
        self.published: queue.Queue[freshet.Transaction] = queue.Queue(64)  # on their way to those who read deltas
        self.failures: list[str] = []
        self.done: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._deltas: dict[int, dict[str, pa.Table]] = {}
        self._answers: list[tuple[int, str, pa.Table]] = []
        self._followed: list[tuple[int, str, pa.Table]] = []
        first = self.db.apply({"owner": [{"name": owner(i), "region": f"region of {owner(i)}"} for i in range(9)]})
        self.heard(first)

    def did(self, what: str) -> None:
        with self._lock:
            self.done[what] += 1

    def failed(self, who: str) -> None:
        """Within an except clause."""
        with self._lock:
            self.failures.append(f"{who}: {traceback.format_exc()}")
        self.stop.set()

    def heard(self, tx: freshet.Transaction) -> None:
        """Reads a transaction's deltas. Other threads that have read them, or are reading them now, get the same."""
        deltas = {name: tx.deltas[name] for name in VIEWS if name in tx.deltas}
        with self._lock:
            known = self._deltas.setdefault(tx.version, deltas)
        assert known.keys() == deltas.keys()
        for name, delta in deltas.items():
            assert delta.equals(known[name]), (tx.version, name)

    def found(self, version: int, view: str, answer: pa.Table) -> None:
        with self._lock:
            if len(self._answers) < 400:
                self._answers.append((version, view, answer))

    def followed(self, version: int, view: str, delta: pa.Table) -> None:
        with self._lock:
            self._followed.append((version, view, delta))

    def compare(self, final: dict[str, pa.Table]) -> None:
        """When all threads have ended: deltas add up to every recorded answer, and to the last ones."""
        versions = sorted(self._deltas)
        assert versions == list(range(1, versions[-1] + 1)), "a transaction was not heard of, or not once"
        for version, view, delta in self._followed:
            actual, known = (
                Counter(zip(*t.to_pydict().values(), strict=True)) for t in (delta, self._deltas[version][view])
            )
            assert actual == known, (version, view)
        answers = sorted(self._answers, key=lambda a: a[0]) + [(versions[-1], n, t) for n, t in final.items()]
        empty = {name: delta.slice(0, 0).drop_columns("_weight") for name, delta in self._deltas[1].items()}
        sums = {name: RunningSum(empty[name]) for name in VIEWS}
        at = 0
        for version, view, answer in answers:
            while at < len(versions) and versions[at] <= version:
                for name, delta in self._deltas[versions[at]].items():
                    sums[name].add(delta)
                at += 1
            sums[view].equals(answer)
        assert final.keys() == VIEWS.keys()
