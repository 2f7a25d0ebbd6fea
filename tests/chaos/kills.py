"""A real process, killed at a random moment; everything it had acknowledged is there, and at most one more
transaction."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import IO, NoReturn

import freshet
from freshet.database.db import inside
from freshet.durable import store
from tests.durable.small import DDL, VIEW, Expected, step
from tests.inner import store_of

_expected: list[Expected] = []


def _work(folder: Path, level: str, turns: int, out: int) -> NoReturn:
    """The work of the child until it is killed: it prints each version when it is acknowledged."""
    store._LEAST, store._PIECE, store._SHARE = 3_000, 2, 1
    os.write(out, b"ready\n")
    while True:
        db = freshet.connect(folder, durability=level)
        if not inside(db).state.core.tables:
            db.execute(DDL)
        if not db.views:
            db.create_view("v", VIEW)
        for _ in range(turns):
            os.write(out, f"{db.apply(step(db.version + 1)).version}\n".encode())
            if db.version >= 60:
                os._exit(0)
        if turns % 2:
            db.close()
        else:
            store_of(db).release()


def _forked(folder: Path, level: str, turns: int) -> tuple[int, IO[str]]:
    """A process that has everything loaded and no database open, as a server's workers are made."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            _work(folder, level, turns, write)
        finally:
            os._exit(1)
    os.close(write)
    return child, open(read)


def run_kill(seed: int) -> str:
    """Errors found afterwards, if there are any."""
    if not _expected:
        _expected.append(Expected(62))
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="freshet-kill-"))
    level, turns = rng.choice(["fsync", "os"]), rng.choice([3, 4, 10, 11])
    child, out = _forked(folder / "db", level, turns)
    try:
        with out:
            assert out.readline() == "ready\n"
            timer = threading.Timer(rng.uniform(0, 0.4), os.kill, [child, signal.SIGKILL])
            timer.start()
            said = out.read()
            timer.join()
        os.waitpid(child, 0)
        acknowledged = [int(line) for line in said.split("\n")[:-1]]
        if not (folder / "db" / "log").exists():
            return f"{acknowledged[-1]} was acknowledged, and there is no log" if acknowledged else ""
        with freshet.connect(folder / "db") as db:
            last = acknowledged[-1] if acknowledged else 0
            if db.version - last not in (0, 1):
                return f"version {db.version}, and {last} was acknowledged"
            for ddl in DDL.split(";"):
                db.execute(ddl.replace("TABLE", "TABLE IF NOT EXISTS"))
            if not db.views:
                db.create_view("v", VIEW)
            _expected[0].check(db)
            db.apply(step(db.version + 1))
            _expected[0].check(db)
        return ""
    except AssertionError as e:
        return str(e)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
