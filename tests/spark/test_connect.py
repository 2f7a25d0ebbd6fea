"""Over Spark Connect: checkpoints, copies and snapshots in folders that client and server share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc")

from tests.spark.conftest import ROOT

BATCHES = [
    [(1, "Ann", 30, "2026-01-01", 1), (2, "Bob", 5, "2026-01-01", 1), (3, "Ann", 4, "9000-01-01", 1)],
    [(2, "Bob", 5, "2026-01-01", -1), (4, "Cid", 8, "2026-01-02", 1)],
]


@pytest.mark.timeout(900)
def test_views_over_connect(tmp_path: Path) -> None:
    for number, batch in enumerate(BATCHES):
        rows = [dict(zip(("id", "customer", "cents", "ts", "_weight"), r, strict=True)) for r in batch]
        (tmp_path / f"{number}.json").write_text(json.dumps(rows))
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [sys.executable, "-m", "tests.spark.connect_run", str(tmp_path)]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=800)
    (told,) = [line for line in ended.stdout.splitlines() if line.startswith("FOUND ")] or [ended.stderr[-4000:]]
    found = json.loads(told.removeprefix("FOUND "))
    assert found["sums 0"] == [["Ann", 34], ["Bob", 5]]
    assert found["known 0"] == [[1, "Ann"], [2, "Bob"]]
    assert found["sums 1"] == [["Ann", 34], ["Cid", 8]]
    assert found["known 1"] == [[1, "Ann"], [4, "Cid"]]
    assert found["rebuilt"] == [["Ann", 30], ["Cid", 8]]
    begins = [
        "hdfs://host/checkpoint cannot be reached over Spark Connect; give",
        f"the checkpoint {tmp_path}/checkpoint was made by another query:\n  table the clock: removed",
        "a database cannot be filled over Spark Connect; materialize",
    ]
    assert all(why.startswith(begin) for why, begin in zip(found["refused"], begins, strict=True))
