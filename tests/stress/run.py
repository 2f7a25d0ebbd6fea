"""A stress run: threads that write, define, read and ask, over one database, in memory or in files."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import freshet
from freshet.database.db import inside
from freshet.errors import StateError
from tests.stress import actors, fence
from tests.stress.world import VIEWS, Restless, World

#: Without pauses they would leave the writers no time.
UNHURRIED = (
    actors.read_answers, actors.read_figures, actors.ask, actors.plan, actors.Follower, actors.look_up, actors.transact,
)  # fmt: skip


def stress(seconds: float, seed: int, folder: Path | None = None) -> World:
    """Runs all actors for a time; raises their errors. The resulting world records what was done."""
    switching, level = sys.getswitchinterval(), logging.getLogger("freshet").level
    sys.setswitchinterval(1e-4)
    logging.getLogger("freshet").setLevel(logging.CRITICAL)  # one of the subscribers fails on purpose
    try:
        with Restless(seed):
            return _stress(World(folder), seconds, seed)
    finally:
        sys.setswitchinterval(switching)
        logging.getLogger("freshet").setLevel(level)


def _stress(world: World, seconds: float, seed: int) -> World:
    late, listener, follower = actors.LateReader(), actors.Listener(world), actors.Follower(world, "joined")
    cast: list[Callable[[World, Random], None]] = [
        actors.Writer(0, 2), actors.Writer(1, 2), actors.Definer(0), actors.Definer(1), late, listener, follower,
        actors.read_deltas, actors.read_deltas, actors.read_answers, actors.BatchReader(), actors.read_figures,
        actors.ask, actors.plan, actors.look_up, actors.transact,
    ]  # fmt: skip
    threads = [
        threading.Thread(target=_act, args=(world, actor, Random(seed * 100 + i)), daemon=True)
        for i, actor in enumerate(cast)
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not world.stop.wait(0.1):
        pass
    world.stop.set()
    deadline = time.monotonic() + 120
    while any(t.is_alive() for t in threads):
        while not world.published.empty():  # a writer may wait for room
            late.held.append(world.published.get())
        if time.monotonic() > deadline:
            raise AssertionError(f"threads hang: {[i for i, t in enumerate(threads) if t.is_alive()]}")
        time.sleep(0.01)
    while not world.published.empty():
        late.held.append(world.published.get())
    if world.failures:
        raise AssertionError(f"{len(world.failures)} failures with seed {seed}; the first:\n{world.failures[0]}")
    _end(world, late, Random(seed))
    return world


def _act(world: World, actor: Callable[[World, Random], None], random: Random) -> None:
    pause = 0.02 if actor in UNHURRIED or type(actor) in UNHURRIED else 0.0
    while not world.stop.wait(pause * random.random()):
        try:
            actor(world, random)
        except Exception:
            world.failed(repr(actor))


def _end(world: World, late: actors.LateReader, random: Random) -> None:
    """The database is closed while transactions are still unread: they own their data."""
    final: dict[str, pa.Table] = {name: world.db.view(name).to_arrow() for name in VIEWS}
    view, reading = world.db.view("plain"), world.db.view("plain").batches(1)
    next(reading, None)
    kept, late.held = late.held[::2], late.held[1::2]
    for tx in kept:
        late.read(world, tx, random)
    world.db.close()
    for use in (view.to_arrow, view.count, view.explain, world.db.metrics, world.db.nbytes, lambda: next(reading)):
        with pytest.raises(StateError, match="the database is closed"):
            use()
    if world.db.on_disk:  # later changes of the files do not affect old deltas
        folder = inside(world.db).store
        assert folder is not None
        with freshet.connect(folder.path) as again:
            assert again.version == world.db.version
            for name in VIEWS:
                assert again.view(name).count() == final[name].num_rows
            again.execute("DELETE FROM item; DELETE FROM owner; DELETE FROM event")
            again.apply({"owner": [{"name": f"{i}" * 50, "region": "another"} for i in range(500)]})
    for tx in late.held:
        late.read(world, tx, random)
    world.compare(final)


def main() -> int:
    options = argparse.ArgumentParser(description="Threads that write, define, read and ask over one database.")
    options.add_argument("--seconds", type=float, default=120)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument(
        "--rounds", type=int, default=1, help="each of so many seconds, in memory and in files in turn"
    )
    options.add_argument("--fence", action="store_true", help="a step beyond an array stops the process")
    given = options.parse_args()
    faulthandler.enable()
    if given.fence:
        fence.build()
    first = int(time.time()) % 100_000 if given.seed is None else given.seed
    for number in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            where = None if number % 2 == 0 else Path(folder) / "db"
            print(f"seed {first + number}, in {'memory' if where is None else 'files'}", flush=True)
            world = stress(given.seconds, first + number, where)
            print("  " + ", ".join(f"{n} {what}" for what, n in sorted(world.done.items())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
