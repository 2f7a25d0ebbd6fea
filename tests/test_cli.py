"""The command line: answers on standard output, mistakes as one message and exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from freshet.cli import main
from freshet.version import __version__


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    schema, query = tmp_path / "schema.sql", tmp_path / "query.sql"
    schema.write_text("CREATE TABLE a (x BIGINT PRIMARY KEY, y BIGINT);\nCREATE TABLE b (y BIGINT, z STRING);\n")
    query.write_text("SELECT a.x, b.z FROM a JOIN b ON a.y = b.y\n")
    return str(query), str(schema)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"freshet {__version__}\n"


def test_explain(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    query, schema = files
    assert main(["explain", query, "--schema", schema]) == 0
    shown = capsys.readouterr().out
    assert "height" in shown
    assert "class      acyclic" in shown  # x and z without y: rows may repeat


def test_plan_is_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    query, schema = files
    assert main(["plan", query, "--schema", schema]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_missing_file(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "no-such.sql", "--schema", files[1]]) == 2
    assert capsys.readouterr().err == "freshet: no-such.sql: No such file or directory\n"


def test_wrong_query(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    query, schema = files
    Path(query).write_text("SELECT nothing FROM a\n")
    assert main(["explain", query, "--schema", schema]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("freshet: line 1, column 8: ")
    assert "nothing" in shown
