"""Every experiment of `make bench-papers` at its least size: it runs, fills its tables and writes its files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.papers import expected, run
from benchmarks.papers.figures import EXPERIMENTS
from benchmarks.papers.harness import SIZES, Plot, Result
from benchmarks.papers.sequences import NEVER, by_lifespan


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--tiny", "--only", name, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    page = (tmp_path / f"{name}.md").read_text()
    tables = list(tmp_path.glob("*.csv"))
    for table in tables:
        assert len(table.read_text().splitlines()) > 1
        assert f"({table.stem}.svg)" in page and (tmp_path / f"{table.stem}.svg").stat().st_size > 1_000
    assert len(tables) == printed.count("\n| -") == page.count("\n| -") > 0
    first = (tmp_path / "README.md").read_text()
    assert f"({name}.md)" in first and first.count("\n- ") == page.count("\n- ")
    judged = [line for line in page.splitlines() if "steps a change: " in line]
    assert all(line.startswith("- holds") for line in judged), judged
    counted = [table for table in tables if "steps a change" in table.read_text().splitlines()[0]]
    assert os.environ.get("FRESHET_DATA") or len(judged) == len(counted)


def result(values: list[float]) -> Result:
    return Result("r", "r", Plot("x", "y"), [{"x": 10.0**i, "y": v} for i, v in enumerate(values)])


@pytest.mark.parametrize(("values", "flat", "linear"), [
    ([1, 1, 1.4], True, False), ([1, 10, 100], False, True), ([5, 50, 5_000], False, False), ([2, 3, 4], False, False),
])  # fmt: skip
def test_verdicts(values: list[float], flat: bool, linear: bool) -> None:
    figure = result(values)
    figure.flat("y")
    figure.linear("x", "y")
    assert [v.held for v in figure.verdicts] == [flat, linear]


@pytest.mark.parametrize(("more", "holds"), [(1.0, True), (1.29, True), (1.31, False)])
def test_more_steps_than_recorded(more: float, holds: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(expected, "RECORDED", tmp_path / "expected.json")
    results = [Result("r", "r", Plot("x", "y"), [{"x": i, "steps a change": s * i} for i in (1, 2)]) for s in (1, more)]
    expected.record(results[:1], SIZES["tiny"])
    expected.judge(results[1:], SIZES["tiny"])
    assert [v.held for v in results[1].verdicts] == [holds]


def test_lifespans_become_moves() -> None:
    tables = {"a": pa.table({"x": [1, 2]}), "b": pa.table({"y": [3]})}
    moves = by_lifespan(
        tables, {"a": np.array([1, 2]), "b": np.array([3])}, {"a": np.array([3, NEVER]), "b": np.array([4])}
    )
    steps = (next(iter(tx.items())) for tx in moves.transactions(1))
    seen = [{name: (rows.column(0).to_pylist(), rows["_weight"].to_pylist())} for name, rows in steps]
    assert seen == [
        {"a": ([1], [1])}, {"a": ([2], [1])}, {"a": ([1], [-1])}, {"b": ([3], [1])}, {"b": ([3], [-1])},
    ]  # fmt: skip
    assert {n: t.num_rows for n, t in moves.held(4).items()} == {"a": 1, "b": 1}
    assert moves.held()["b"].num_rows == 0
