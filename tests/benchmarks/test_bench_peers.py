"""`make bench-peers` at a small size: every peer keeps the answers that DuckDB has, and the results are written."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.peers import run
from benchmarks.peers.figures import Outcome, figure, summary
from benchmarks.peers.programs import CRATES
from benchmarks.peers.queries import QUERIES
from benchmarks.peers.stream import Stream, checksum
from benchmarks.peers.streams import StreamSize, stream_folder

#: As small as a window still holds a transaction of 100 changes.
TINY = run.PeersSize("tiny", StreamSize(0.001, 2_000), (1, 100), 0.1, 60, 1)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(run, "QUICK", TINY)
    monkeypatch.setenv("FRESHET_PEERS", str(tmp_path / "streams"))
    monkeypatch.delenv("FRESHET_DATA", raising=False)
    return tmp_path / "out"


@pytest.mark.parametrize("queries", [["q3", "paths"], ["star_count", "q5"]])
def test_peers_in_python(queries: list[str], tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--quick", "--peers", *run.IN_PYTHON, "--only", *queries, "--out", str(tiny)]) == 0
    page, printed = (tiny / "peers.md").read_text(), capsys.readouterr().out
    for name in queries:
        rows = (tiny / f"peers-{name.replace('_', '-')}.csv").read_text().splitlines()
        assert len(rows) == 1 + len(TINY.sizes) * len(run.IN_PYTHON)
        assert not any("did not finish" in row or "failed" in row for row in rows)
        assert QUERIES[name].title in page and QUERIES[name].title in printed


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
@pytest.mark.parametrize("peer", CRATES)
def test_peers_in_rust(peer: str, tiny: Path) -> None:
    assert run.main(["--quick", "--peers", "freshet", peer, "--out", str(tiny)]) == 0
    table = (tiny / "peers-all.csv").read_text()
    assert peer in table and not any(word in table for word in ("did not finish", "failed", "cannot express"))


def test_all_queries_have_the_answers_of_duckdb(tiny: Path) -> None:
    """Also those that no peer but Freshet can be asked in a test: the driver checks every answer."""
    assert run.main(["--quick", "--peers", "freshet", "--out", str(tiny)]) == 0


def test_a_wrong_answer_is_noticed(tiny: Path) -> None:
    query = QUERIES["path_count"]
    folder, _, total = stream_folder("path_count", query, TINY.streams)
    rows, check = run.expected_answer(query, folder, total)
    with pytest.raises(AssertionError, match="is not DuckDB's"):
        run._check(query, folder, total, {"peer": Outcome("", {"rows": rows, "check": check ^ 1})})


def test_transactions_are_consecutive_parts_of_a_stream(tiny: Path) -> None:
    folder, fill, total = stream_folder("q3", QUERIES["q3"], TINY.streams)
    stream = Stream(folder, QUERIES["q3"].tables)
    whole = stream.transaction(0, total)
    parts = [stream.transaction(at, min(at + 97, total)) for at in range(0, total, 97)]
    for name in ("orders", "lineitem"):
        assert sum(part[name].num_rows for part in parts if name in part) == whole[name].num_rows
        held = stream.surviving(total)[name].num_rows
        assert held == sum(pa.compute.sum(part[name]["_weight"]).as_py() for part in parts if name in part)
    assert all((np.array(part["_weight"]) == 1).all() for part in stream.transaction(0, fill).values())
    assert stream.loaded["customer"].num_rows and not stream.loaded["orders"].num_rows


def test_a_checksum_is_the_sum_of_its_deltas() -> None:
    answer = pa.table({"a": [1, 2], "b": ["x", "y"]})
    deltas = pa.table({"a": [1, 3, 2, 3], "b": ["x", "z", "y", "z"]})
    weights = np.array([1, 1, 1, -1])
    assert checksum(deltas, {}, weights) % 2**64 == checksum(answer, {})
    assert checksum(answer, {}) != checksum(answer.slice(0, 1), {})


def test_figures_of_runs() -> None:
    def outcome(nanoseconds: int) -> Outcome:
        spent = [nanoseconds] * 200
        times = {"wall": spent, "processor": spent, "resident": 2_000_000, "empty": 1_000_000}
        return Outcome("", {"measured": 200, **times})

    runs = [
        {"freshet": outcome(f), "other": outcome(o), "slow": Outcome("did not finish")} for f, o in ((1, 3), (2, 4))
    ]
    result = figure("q3", "Q3", {1: runs})
    ours, theirs, slow = result.rows
    assert (ours["from"], ours["to"], ours["Freshet is"]) == (5e8, 1e9, "")
    assert (theirs["Freshet is"], theirs["p99 µs"], theirs["p99.9 µs"]) == ("2.50 ×", 0.0, None)
    assert slow["measured"] == "did not finish"
    assert summary("peers", [result]).rows[0]["fastest"] == "freshet"
