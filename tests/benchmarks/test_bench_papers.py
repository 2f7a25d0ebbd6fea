"""Every experiment of `make bench-papers` at its least size: it runs, fills its tables and writes its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.papers import run
from benchmarks.papers.figures import EXPERIMENTS
from benchmarks.papers.harness import Plot, Result
from benchmarks.papers.sequences import NEVER, by_lifespan


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--tiny", "--only", name, "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    page = (tmp_path / f"{name}.md").read_text()
    tables = list(tmp_path.glob("*.csv"))
    for table in tables:
        assert len(table.read_text().splitlines()) > 1
        assert f"({table.stem}.svg)" in page and (tmp_path / f"{table.stem}.svg").stat().st_size > 1_000
    assert len(tables) == told.count("\n| -") == page.count("\n| -") > 0
    first = (tmp_path / "README.md").read_text()
    assert f"({name}.md)" in first and first.count("\n- ") == page.count("\n- ")


def result(values: list[float]) -> Result:
    return Result("r", "r", Plot("x", "y"), [{"x": 10.0**i, "y": v} for i, v in enumerate(values)])


@pytest.mark.parametrize(("values", "flat", "linear"), [
    ([1, 1, 1.4], True, False), ([1, 10, 100], False, True), ([5, 50, 5_000], False, False), ([2, 3, 4], False, False),
])  # fmt: skip
def test_verdicts(values: list[float], flat: bool, linear: bool) -> None:
    found = result(values)
    found.flat("y")
    found.linear("x", "y")
    assert [v.held for v in found.verdicts] == [flat, linear]


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
