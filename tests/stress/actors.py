"""The work of each thread of a stress run, repeated until it is stopped. Every actor has its own random generator.
Expected errors (a view that changed while it was read, a row that already exists) are caught where they may occur; any
other error ends the run.
"""

from __future__ import annotations

import itertools
import json
import queue
import threading
from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import inside
from freshet.errors import ChangeError, StateError
from tests.stress.world import DDL, OWNERS, VIEWS, World, check, item, owner

Actor = Callable[[World, Random], None]


class Writer:
    """Changes the items whose key leaves rest `part` when divided by `parts`: those are its own."""

    def __init__(self, part: int, parts: int) -> None:
        self.part, self.parts, self.held, self.next = part, parts, dict[int, int](), 0

    def __call__(self, world: World, random: Random) -> None:
        db, held = world.db, self.held
        kind = random.random()
        if kind < 0.05:
            self._refused(world, random)
            return
        if kind < 0.15 and held:
            tx = self._by_statement(world, random)
        else:
            many = random.choice((1, 20, 20, 200))
            gone = random.sample(sorted(held), min(len(held), random.choice((0, many, many))))
            come = [(self.next + i) * self.parts + self.part for i in range(many)]
            self.next += many
            fresh = {key: random.randint(1, 9) for key in come}
            rows = [item(key, n, _weight=1) for key, n in fresh.items()]
            rows += [item(key, held[key], _weight=-1) for key in gone]
            changes = {"item": rows, **self._owners(random)}
            tx = db.apply(changes)
            for key in gone:
                del held[key]
            held.update(fresh)
        world.did("transactions")
        world.published.put(tx)

    def _owners(self, random: Random) -> dict[str, list[dict[str, object]]]:
        """Upserts of owners, which all writers share, and events, which are only added and removed together."""
        rows: dict[str, list[dict[str, object]]] = {}
        if random.random() < 0.3:
            name = owner(random.randrange(OWNERS))
            region = f"region of {name}, {random.choice('abc')}"
            rows["owner"] = [{"name": name, "region": region, "_change_type": "upsert"}]
        if random.random() < 0.5:
            names = [owner(random.randrange(2 * OWNERS)) for _ in range(random.randint(1, 30))]
            rows["event"] = [{"owner": name, "kind": f"kind {random.randrange(40)}"} for name in names]
        return rows

    def _by_statement(self, world: World, random: Random) -> freshet.Transaction:
        key = random.choice(sorted(self.held))
        tx: freshet.Transaction
        if random.random() < 0.5:
            tx = world.db.execute(f"DELETE FROM item WHERE id = {key}")
            del self.held[key]
        else:
            n = random.randint(1, 9)
            fresh = item(key, n)["body"]
            tx = world.db.execute(f"UPDATE item SET n = {n}, body = '{fresh}' WHERE id = {key}")
            self.held[key] = n
        return tx

    def _refused(self, world: World, random: Random) -> None:
        """Transactions that change nothing: a key that is there, and a row on which a view has no value."""
        fresh = item((self.next + 1) * self.parts + self.part, 5)
        bad = [{**fresh, "id": 2**40 + 2 * self.part, "n": 0}]
        if self.held and random.random() < 0.5:
            key = random.choice(sorted(self.held))
            bad = [item(key, 5)]
        try:
            world.db.apply({"item": [fresh, *bad]})
        except ChangeError:
            world.did("refused transactions")
        else:
            raise AssertionError(f"{bad} was accepted")


def read_deltas(world: World, random: Random) -> None:
    """Immediately, at the same time as another thread, or later."""
    try:
        tx = world.published.get(timeout=0.05)
    except queue.Empty:
        return
    if random.random() < 0.3:
        other = threading.Thread(target=_hear, args=(world, tx))
        other.start()
        _hear(world, tx)
        other.join()
    else:
        _hear(world, tx)
    for name in random.sample(sorted(VIEWS), 3):
        check(name, tx.deltas[name], random)
    world.did("transactions read")


def _hear(world: World, tx: freshet.Transaction) -> None:
    try:
        world.heard(tx)
    except Exception:
        world.failed("a reader of deltas")


class LateReader:
    """Keeps transactions unread over sweeps, growth and dropped views; the remaining ones are read at the end."""

    def __init__(self) -> None:
        self.held: list[freshet.Transaction] = []

    def __call__(self, world: World, random: Random) -> None:
        try:
            self.held.append(world.published.get(timeout=0.05))
        except queue.Empty:
            return
        if len(self.held) > 20:
            self.read(world, self.held.pop(random.randrange(len(self.held))), random)

    def read(self, world: World, tx: freshet.Transaction, random: Random) -> None:
        world.heard(tx)
        for name in random.sample(sorted(VIEWS), 3):
            check(name, tx.deltas[name], random)
        world.did("transactions read late")


class Follower:
    """Follows a view's changes; in folders with a buffer so small that it often continues from the log."""

    def __init__(self, world: World, view: str) -> None:
        self.view = view
        self.changes = world.db.view(view).changes(follow=False, buffer=5 if world.db.on_disk else 10_000)
        self.last = world.db.version

    def __call__(self, world: World, random: Random) -> None:
        for version, delta in self.changes:
            assert version == self.last + 1, (version, self.last)
            self.last = version
            world.followed(version, self.view, delta)
            check(self.view, delta, random)
            world.did("changes followed")


def read_answers(world: World, random: Random) -> None:
    db, name = world.db, random.choice(sorted(VIEWS))
    view = db.view(name)
    if random.random() < 0.3:
        with inside(db).access.lock:
            version, answer = db.version, view.to_arrow()
            assert db.version == version and view.count() == answer.num_rows
        world.found(version, name, answer)
    else:
        before = db.version
        answer = view.to_arrow()
        assert before <= db.version
    check(name, answer, random)
    world.did("answers read")


class BatchReader:
    """Reads answers in batches and keeps some, which must not change."""

    def __init__(self) -> None:
        self.kept: list[tuple[pa.RecordBatch, pa.RecordBatch]] = []

    def __call__(self, world: World, random: Random) -> None:
        name = random.choice(sorted(VIEWS))
        view, version, batches = world.db.view(name), world.db.version, list[pa.RecordBatch]()
        if random.random() < 0.3:
            self._read_copy(world, view, name)
            return
        try:
            for batch in view.batches(random.choice((1, 7, 1000))):
                batches.append(batch)
                if random.random() < 0.2:
                    self.kept.append((batch, _copied(batch)))
                if len(batches) > 50:
                    break
            else:
                if world.db.version == version:
                    world.did("answers read in batches")
        except StateError as e:
            if "while it was read" not in str(e):
                raise
            world.did("answers that moved on")
        for batch in batches[:5]:
            check(name, batch, random)
        if len(self.kept) > 100:
            random.shuffle(self.kept)
            for batch, copy in self.kept[50:]:
                assert batch.equals(copy), "a batch changed after it was handed out"
            del self.kept[50:]

    def _read_copy(self, world: World, view: freshet.View, name: str) -> None:
        """Transactions in between do not matter."""
        reading = view.batches(50, copy=True)
        with inside(world.db).access.lock:
            version, first = world.db.version, list(itertools.islice(reading, 1))
        answer = pa.Table.from_batches([*first, *reading], view.schema)
        world.found(version, name, answer)
        world.did("copies read")


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return next(iter(pa.ipc.open_stream(sink.getvalue())))


def read_figures(world: World, random: Random) -> None:
    db = world.db
    version = db.version
    figures = db.metrics()
    assert figures["version"] >= version and set(VIEWS) <= set(figures["views"])
    assert db.nbytes() > 0 and db.tuples() >= 0 and db.changes >= 0
    assert set(inside(db).state.row_counts()) >= {"item", "owner", "event"}
    name, view = random.choice(sorted(db.views.items()))
    try:
        assert json.loads(view.explain("json"))["view"] == view.name
        assert view.explain().startswith("view ") and view.metrics()["changes"] >= 0
        assert view.count() >= 0 and view.schema.names and repr(view)
    except StateError as e:
        if name in VIEWS or "was dropped" not in str(e):
            raise
    world.did("figures read")


def look_up(world: World, random: Random) -> None:
    """Rows by key, by group and by index, and the same in SQL; a row's text says whether it is right."""
    db, key = world.db, random.randrange(5_000)
    one = db.view("plain").get(key)
    rows = [] if one is None else [one]
    rows += db.query("SELECT id, n, owner, body FROM plain WHERE id = ?", [key]).to_pylist()
    rows += db.query(f"SELECT id, n, owner, body FROM item WHERE id = {key}").to_pylist()
    rows += db.view("plain").find(owner(key), by="owner")[:5]
    rows += db.query("SELECT id, n, owner, body FROM plain WHERE n > 3 LIMIT 5").to_pylist()
    if rows:
        check("plain", pa.Table.from_pylist(rows, db.view("plain").schema), random)
    total = db.view("totals").get(f"region of {owner(key)}, a")
    assert total is None or total["c"] > 0
    world.did("rows looked up")


def transact(world: World, random: Random) -> None:
    """A transaction of several statements that reads its own writes, then rolls back; others never see it."""
    key = -1 - random.randrange(50)
    try:
        with world.db.transaction() as tx:
            tx.apply({"item": [item(key, 3)]})
            assert world.db.view("plain").get(key)["n"] == 3
            tx.execute("UPDATE item SET n = 4, body = ? WHERE id = ?", [item(key, 4)["body"], key])
            rows = tx.query("SELECT n FROM plain WHERE id = ?", [key]).to_pylist()
            assert rows == [{"n": 4}], rows
            raise InterruptedError
    except InterruptedError:
        world.did("transactions rolled back")


def ask(world: World, random: Random) -> None:
    """One-off queries: their answers are consistent in themselves, because they are of one version."""
    db, rest = world.db, random.randrange(9)
    if random.random() < 0.3:
        answer = db.execute("SELECT id, n, CONCAT(UPPER(body), '!') AS loud, body FROM item WHERE id % 11 = 0")
        check("asked", answer, random)
        assert all(
            loud == body.upper() + "!"
            for loud, body in zip(answer["loud"].to_pylist(), answer["body"].to_pylist(), strict=True)
        )
    else:
        answer = db.execute(
            f"SELECT (SELECT COUNT(*) FROM item WHERE n <= {rest}) AS low, (SELECT COUNT(*) FROM item WHERE n > {rest})"
            " AS high, (SELECT COUNT(*) FROM plain) AS every"
        ).to_pylist()[0]
        assert answer["low"] + answer["high"] == answer["every"], answer
    world.did("queries asked")


def plan(world: World, random: Random) -> None:
    name = random.choice([n for n in sorted(VIEWS) if n != "above"])
    made = freshet.plan(VIEWS[name], DDL)
    assert freshet.Plan.from_json(made.to_json()) == made
    world.did("plans made")


class Definer:
    """Creates and drops tables and views of its own, over those of the others and over each other."""

    def __init__(self, number: int) -> None:
        self.prefix = f"d{number}_"
        self.views: list[str] = []
        self.tables: dict[str, int] = {}

    def __call__(self, world: World, random: Random) -> None:
        db = world.db
        step = random.random()
        fresh = f"{self.prefix}{random.randrange(10**9)}"
        if step < 0.25 and len(self.tables) < 4:
            db.execute(f"CREATE TABLE {fresh} (k BIGINT, s STRING)")
            self.tables[fresh] = 0
        elif step < 0.5 and self.tables:
            table = random.choice(sorted(self.tables))
            self.tables[table] += 10
            tx = db.apply({table: [{"k": i, "s": f"{table} {i}"} for i in range(10)]})
            world.published.put(tx)
        elif step < 0.75 and len(self.views) < 6:
            below = random.choice(["item", "plain", "joined"])
            sql = f"SELECT id, n, body FROM {below} WHERE n < {random.randint(2, 9)}"
            if self.tables and random.random() < 0.5:
                table = random.choice(sorted(self.tables))
                sql = f"SELECT t.k AS id, x.n, x.body, t.s FROM {table} t JOIN item x ON x.id = t.k"
            view = db.create_view(fresh, sql)
            self.views.append(fresh)
            check("plain" if " s FROM" in sql else fresh, view.to_arrow().drop_columns(["id"]), random)
        elif self.views:
            name = self.views.pop(random.randrange(len(self.views)))
            view = db.view(name)
            reading = view.batches(2)
            with inside(db).access.lock:
                begun = next(reading, None)
                db.execute(f"DROP VIEW {name}")
            if begun is not None:
                with pytest.raises(StateError, match="dropped"):
                    next(reading)
        elif self.tables:
            table, rows = self.tables.popitem()
            assert db.execute(f"SELECT COUNT(*) AS n FROM {table}").to_pylist() == [{"n": rows}]
            db.execute(f"DROP TABLE {table}")
        world.did("definitions changed")


class Listener:
    """A subscriber that waits for another thread to read the delta and the answer of the version just made, or of one
    that was synced with it; and one that fails."""

    def __init__(self, world: World) -> None:
        self.world, self.random = world, Random(1)
        self.asked: queue.Queue[tuple[freshet.Transaction, queue.Queue[bool]]] = queue.Queue()
        self.last = world.db.version
        self.handles = [world.db.view("plain").subscribe(self.hear), world.db.view("loud").subscribe(self.fail)]

    def hear(self, tx: freshet.Transaction) -> None:
        try:
            assert tx.version == self.last + 1 <= self.world.db.version, (tx.version, self.last)
            self.last = tx.version
            if self.random.random() < 0.2 and not self.world.stop.is_set():
                done: queue.Queue[bool] = queue.Queue()
                self.asked.put((tx, done))
                done.get(timeout=120)
        except Exception:
            self.world.failed("a subscriber")

    def fail(self, tx: freshet.Transaction) -> None:
        if self.random.random() < 0.01:
            raise ArithmeticError("as some subscribers do")

    def __call__(self, world: World, random: Random) -> None:
        """The work of the thread for which the subscriber waits."""
        try:
            tx, done = self.asked.get(timeout=0.05)
        except queue.Empty:
            return
        try:
            name = random.choice(sorted(VIEWS))
            check(name, tx.deltas[name], random)
            version = world.db.version  # this one, or a later one that shares its sync
            assert tx.version == version if not world.db.on_disk else tx.version <= version
            answer = world.db.view(name).to_arrow()
            assert world.db.version == version, "something has changed while a subscriber was called"
            world.found(version, name, answer)
            world.did("subscribers served")
        finally:
            done.put(True)
