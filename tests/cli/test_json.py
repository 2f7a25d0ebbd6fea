"""`--json` of every command: what it prints parses, and has the shape that docs/commands.md shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from freshet.cli import main
from tests.cli.test_commands import freshet

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text()
SHAPES = {name: json.loads(text) for name, text in re.findall(r"```json (\w+)\n(.*?)```", DOCUMENT, re.DOTALL)}
LOOSE = {"deltas", "views", "milliseconds"}  # objects whose keys are names of the user's or of Spark


def same_shape(found: Any, shown: Any, where: str = "it") -> None:
    if isinstance(shown, dict):
        assert isinstance(found, dict), where
        if where.rpartition(".")[2] in LOOSE:
            (each,) = shown.values()
            for key, value in found.items():
                same_shape(value, each, f"{where}.{key}")
            return
        missing = shown.keys() - found.keys()
        assert not missing, f"{where} lacks {missing}"
        for key, value in shown.items():
            same_shape(found[key], value, f"{where}.{key}")
    elif isinstance(shown, list):
        assert isinstance(found, list), where
        for i, value in enumerate(found if shown else ()):
            same_shape(value, shown[0], f"{where}[{i}]")
    elif shown is not None and found is not None:
        kinds = (int, float) if isinstance(shown, float) else type(shown)
        assert isinstance(found, kinds), f"{where} is {found!r}, and {shown!r} is shown"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "t.sql").write_text("CREATE TABLE t (a BIGINT, b BIGINT); CREATE TABLE u (b BIGINT, c BIGINT)")
    (tmp_path / "q.sql").write_text("SELECT t.a, COUNT(*) AS n FROM t JOIN u ON t.b = u.b GROUP BY t.a")
    (tmp_path / "job.sql").write_text("SET shards = 'x';\nCREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'none');")
    pq.write_table(pa.table({"x": [1, 2, 2], "_weight": [1, 1, -1]}), tmp_path / "c.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("check", ["check", "job.sql"], 2),
        ("explain", ["explain", "q.sql", "--schema", "t.sql"], 0),
        ("enclosure", ["enclosure", "c.parquet"], 0),
        ("bench", ["bench", "--source", "market", "--scale", "0.0005", "--seconds", "1"], 0),
        ("doctor", ["doctor"], None),
    ],
)
def test_what_is_printed_is_what_is_documented(
    name: str, arguments: list[str], code: int | None, files: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(files)
    assert main([*arguments, "--json"]) in ((0, 1) if code is None else (code,))
    shown = capsys.readouterr()
    assert shown.err == ""
    same_shape(json.loads(shown.out), SHAPES[name])


def test_transactions_of_sql() -> None:
    done = freshet(
        "sql", "--json",
        given="CREATE TABLE t (b BIGINT); CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b; "
        "INSERT INTO t VALUES (7), (7)",
    )  # fmt: skip
    (line,) = done.stdout.splitlines()
    assert json.loads(line) == SHAPES["sql"] and done.stderr == ""


def test_micro_batches_of_run() -> None:
    pytest.importorskip("pyspark")
    from types import SimpleNamespace

    from freshet.job.run import progress_json
    from freshet.job.spark_sink import BatchCounts

    counts = BatchCounts({"sums": 2}, {}, {"sums": 2})
    progress = SimpleNamespace(batchId=0, numInputRows=3, durationMs={"triggerExecution": 900})
    assert json.loads(progress_json(progress, SimpleNamespace(counts=counts))) == SHAPES["run"]  # type: ignore[arg-type]


def test_the_document_has_every_command() -> None:
    assert set(SHAPES) == {"check", "explain", "enclosure", "bench", "doctor", "sql", "run", "serve"}
