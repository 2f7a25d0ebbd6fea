"""How long a new process takes until its first view answers: with kernels to compile, and with kernels cached.

Run as a module it measures its own process and prints JSON; `measure` runs it twice over one cache folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time


def measure() -> list[dict[str, float]]:
    """Seconds of each phase, for an empty cache and then for a filled one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FRESHET_CACHE": folder}
        command = [sys.executable, "-m", "benchmarks.startup"]
        runs = [subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE) for _ in range(2)]
        return [json.loads(run.stdout) for run in runs]


def _this_process() -> dict[str, float]:
    spent: dict[str, float] = {}
    start = time.perf_counter()

    def lap(phase: str) -> None:
        nonlocal start
        now = time.perf_counter()
        spent[phase], start = now - start, now

    import freshet
    from benchmarks import three_hop, tpch

    lap("import")
    db = freshet.connect()
    db.execute(three_hop.SCHEMA)
    db.create_view("paths", three_hop.QUERY)
    db.apply({"g": [{"src": 1, "dst": 2}]})
    lap("first view and change")
    for statement in tpch.ddl():
        db.execute(statement)
    lap("create tables")
    for name in ("q3", "q5"):
        db.create_view(name, tpch.QUERIES[name])
        lap(f"register {name}")
    return spent


if __name__ == "__main__":
    print(json.dumps(_this_process()))
