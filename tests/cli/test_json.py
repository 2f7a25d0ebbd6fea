"""`--json` of every command: the output parses, and has the format that docs/commands.md shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from freshet.cli import main
from tests.cli.test_commands import ROOT, freshet

DOCUMENT = (ROOT / "docs" / "commands.md").read_text()
SHAPES = {name: json.loads(text) for name, text in re.findall(r"```json (\w+)\n(.*?)```", DOCUMENT, re.DOTALL)}
LOOSE = {"deltas", "views", "milliseconds"}  # objects whose keys are names of users or of Spark


def same_shape(printed: Any, shown: Any, where: str = "it") -> None:
    if isinstance(shown, dict):
        assert isinstance(printed, dict), where
        if where.rpartition(".")[2] in LOOSE:
            (each,) = shown.values()
            for key, value in printed.items():
                same_shape(value, each, f"{where}.{key}")
            return
        missing = shown.keys() - printed.keys()
        assert not missing, f"{where} lacks {missing}"
        for key, value in shown.items():
            same_shape(printed[key], value, f"{where}.{key}")
    elif isinstance(shown, list):
        assert isinstance(printed, list), where
        for i, value in enumerate(printed if shown else ()):
            same_shape(value, shown[0], f"{where}[{i}]")
    elif shown is not None and printed is not None:
        kinds = (int, float) if isinstance(shown, float) else type(shown)
        assert isinstance(printed, kinds), f"{where} is {printed!r}, and {shown!r} is shown"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "t.sql").write_text("CREATE TABLE t (a BIGINT, b BIGINT); CREATE TABLE u (b BIGINT, c BIGINT)")
    (tmp_path / "q.sql").write_text("SELECT t.a, COUNT(*) AS n FROM t JOIN u ON t.b = u.b GROUP BY t.a")
    (tmp_path / "bad.sql").write_text("SELECT nothing\n  FROM t")
    (tmp_path / "half.sql").write_text("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1);\nSELECT b FROM t;")
    (tmp_path / "wrong.json").write_text('{"format": 9}')
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "job.sql").write_text("SET shards = 'x';\nCREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'none');")
    (tmp_path / "good.sql").write_text(GOOD + "CREATE SINK s FROM v USING console;")
    (tmp_path / "no_sink.sql").write_text(GOOD)
    pq.write_table(pa.table({"x": [1, 2, 2], "_weight": [1, 1, -1]}), tmp_path / "c.parquet")
    (tmp_path / "c.csv").write_text("x,_weight\n1,much\n")
    return tmp_path


GOOD = "CREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'in'); CREATE MATERIALIZED VIEW v AS SELECT a FROM t;"
SCHEMA = ("--schema", "t.sql")
MARKET = ("--source", "market", "--scale", "0.0005")


def only_json(shown: str) -> list[Any]:
    return [
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON")) for line in shown.splitlines()
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("check", ["check", "job.sql"], 2),
        ("check", ["check", "good.sql"], 0),
        ("explain", ["explain", "q.sql", *SCHEMA], 0),
        ("enclosure", ["enclosure", "c.parquet"], 0),
        ("bench", ["bench", *MARKET, "--seconds", "1"], 0),
        ("doctor", ["doctor"], None),
    ],
)
def test_what_is_printed_is_what_is_documented(
    name: str, arguments: list[str], code: int | None, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--json"]) in ((0, 1) if code is None else (code,))
    shown = capsys.readouterr()
    assert shown.err == ""
    (printed,) = only_json(shown.out)
    same_shape(printed, SHAPES[name])


def test_a_plan_in_one_line_is_the_same_plan(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "q.sql", *SCHEMA, "--json"]) == 0
    (line,) = only_json(capsys.readouterr().out)
    assert main(["plan", "q.sql", *SCHEMA]) == 0
    assert json.loads(capsys.readouterr().out) == line


FAILURES = [
    *([command, "none.sql"] for command in ("check", "explain", "plan", "run", "serve", "sql", "enclosure")),
    *([command, "."] for command in ("check", "explain", "plan", "run", "serve", "sql", "enclosure")),
    *([command] for command in ("check", "explain", "plan", "run", "enclosure", "nothing")),
    *([command, "--begin"] for command in ("sql", "serve", "demo", "bench", "doctor")),
    *([command, "q.sql"] for command in ("explain", "plan")),
    *([command, "bad.sql", *SCHEMA] for command in ("explain", "plan")),
    *([command, "wrong.json"] for command in ("explain", "plan")),
    *([command, "job.sql"] for command in ("run", "serve")),
    *([command, *MARKET, "--port", "99999"] for command in ("serve", "demo")),
    *([command, *MARKET, "--host", "0.0.0.0", "--port", "0"] for command in ("serve", "demo")),
    *([command, *MARKET, "--host", "127.0.0.1\0", "--port", "0"] for command in ("serve", "demo")),
    *([command, *MARKET, "--budget", "0", "--port", "0"] for command in ("serve", "demo")),
    *([command, *MARKET, "--scale", "nan", "--port", "0"] for command in ("serve", "demo")),
    ["bench", "--scale", "-1"],
    ["bench", "--mode", "often"],
    ["bench", *MARKET, "--query", "nothing"],
    ["enclosure", "notes.txt"],
    ["enclosure", "c.csv"],
    ["enclosure", "c.parquet", "--plan", "q.sql"],
    ["run", "good.sql", "--shards", "0"],
    ["run", "good.sql", "--shards", "many"],
    ["run", "good.sql", "--master", "here"],
    ["run", "good.sql", "--checkpoint", "notes.txt"],
    ["run", "good.sql", "--plan", "v"],
    ["run", "good.sql", "--plan", "v=wrong.json"],
    ["run", "good.sql", "--web", "--host", "0.0.0.0"],
    ["sql", "half.sql"],
    ["sql", "q.sql", "--db", "notes.txt"],
    ["sql", "q.sql", "--db", "."],
    ["sql", "q.sql", "--adapt", "0.5"],
]


@pytest.mark.parametrize("arguments", FAILURES, ids=" ".join)
def test_a_failure_is_one_object(arguments: list[str], files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output; standard error says the same for people."""
    pytest.importorskip("starlette")
    pytest.importorskip("pyspark")
    try:
        code: object = main([*arguments, "--json"])
    except SystemExit as stopped:
        code = stopped.code
    shown = capsys.readouterr()
    *before, error = only_json(shown.out)
    assert code == 2 and "Traceback" not in shown.err and shown.err
    assert before == ([{"version": 1, "deltas": {}}] if arguments == ["sql", "half.sql"] else [])
    same_shape(error, SHAPES["error"] if "line" in error else {"error": "…"})
    if "mistakes" in error:
        same_shape(error["mistakes"], SHAPES["check"]["mistakes"])


def test_a_mistake_has_its_place(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "bad.sql", *SCHEMA, "--json"]) == main(["sql", "half.sql", "--json"]) == 2
    first, _, second = only_json(capsys.readouterr().out)
    assert first == SHAPES["error"]
    assert second == {"error": "no column b; t has a", "line": 2, "column": 8}


def test_an_option_cut_short_is_the_same(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "none.sql", "--js"]) == 2
    assert only_json(capsys.readouterr().out) == [{"error": "none.sql: no such file; correct the path"}]


def test_what_breaks_inside_is_json_too(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("freshet.cli.check.find_mistakes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["check", "job.sql", "--json"])
    (error,) = only_json(capsys.readouterr().out)
    assert error == {"error": "something broke inside: ZeroDivisionError: division by zero"}


def test_nothing_else_reaches_standard_output(files: Path) -> None:
    """Neither the output of this process, nor that of its child processes."""
    code = (
        "import os, subprocess, sys; from freshet import cli; from freshet.cli import check\n"
        "def noisy(*_):\n"
        "    print('printed'); os.write(1, b'written'); subprocess.run(['echo', 'started'])\n"
        "    cli.emit({'one': float('nan'), 'two': '\\ud800' + chr(0x6f22)}); return 0\n"
        "check.run = noisy\n"
        "code = cli.main(['check', 'job.sql', '--json'])\n"
        "print('after'); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "LC_ALL": "POSIX", "PYTHONUTF8": "0"},
    )  # fmt: skip
    line, after = done.stdout.decode().splitlines()
    assert json.loads(line) == {"one": "NaN", "two": "\ud800漢"} and after == "after"
    assert all(word in done.stderr for word in (b"printed", b"written", b"started"))


def test_transactions_of_sql() -> None:
    done = freshet(
        "sql", "--json",
        given="CREATE TABLE t (b BIGINT); CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b; "
        "INSERT INTO t VALUES (7), (7)",
    )  # fmt: skip
    assert only_json(done.stdout) == [SHAPES["sql"]] and done.stderr == ""


def test_micro_batches_of_run() -> None:
    pytest.importorskip("pyspark")
    from types import SimpleNamespace

    from freshet.job.run import described
    from freshet.job.spark_sink import BatchCounts

    counts = BatchCounts({"sums": 2}, {}, {"sums": 2})
    progress = SimpleNamespace(batchId=0, numInputRows=3, durationMs={"triggerExecution": 900})
    assert described(progress, SimpleNamespace(counts=counts)) == SHAPES["run"]  # type: ignore[arg-type]


def test_the_document_has_every_command() -> None:
    assert set(SHAPES) == {"check", "explain", "enclosure", "bench", "doctor", "sql", "run", "serve", "error"}
