"""A real process, killed at a random moment; what it had acknowledged is there, and at most one transaction more."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import freshet
from tests.durable.small import DDL, VIEW, Expected, step

ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = """
import sys
import freshet
from freshet.durable import store
from tests.durable.small import DDL, VIEW, step
store._LEAST = 3_000
folder, level, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
freshet.connect()
print("ready", flush=True)
while True:
    db = freshet.connect(folder, durability=level)
    if not db.tables:
        db.execute(DDL)
    if not db.views:
        db.create_view("v", VIEW)
    for _ in range(turns):
        print(db.apply(step(db.version + 1)).version, flush=True)
        if db.version >= 60:
            sys.exit()
    if turns % 2:
        db.close()
    else:
        db._store.release()
"""
_expected: list[Expected] = []


def run_kill(seed: int) -> str:
    """What was wrong afterwards, if anything was."""
    if not _expected:
        _expected.append(Expected(62))
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="freshet-kill-"))
    level, turns = rng.choice(["fsync", "os"]), rng.choice([3, 4, 10, 11])
    places = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    child = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(folder / "db"), level, str(turns)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": places},
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        timer = threading.Timer(rng.uniform(0, 0.4), child.send_signal, [signal.SIGKILL])
        timer.start()
        said = child.stdout.read()
        timer.join()
        child.wait()
        child.stdout.close()
        told = [int(line) for line in said.split("\n")[:-1]]
        if not (folder / "db" / "log").exists():
            return f"{told[-1]} was acknowledged, and there is no log" if told else ""
        with freshet.connect(folder / "db") as db:
            last = told[-1] if told else 0
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
        child.kill()
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)
