"""`freshet explain` and `freshet plan`: answers on standard output, mistakes as one message and exit code 2."""

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


@pytest.mark.parametrize(
    "command", ["demo", "sql", "explain", "plan", "check", "run", "serve", "enclosure", "bench", "recover", "doctor"]
)
def test_help_teaches_by_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert f"freshet {command}" in shown.split("options:")[1] or "CREATE TABLE" in shown or "freshet=>" in shown
    assert "\x1b" not in shown


def test_explain(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    query, schema = files
    assert main(["explain", query, "--schema", schema]) == 0
    shown = capsys.readouterr().out
    assert "height" in shown
    assert "class      acyclic" in shown  # x and z without y: rows may repeat


def test_explain_as_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    query, schema = files
    assert main(["explain", query, "--schema", schema, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["class"].startswith("acyclic")


def test_an_edited_plan_is_explained(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query, schema = files
    assert main(["plan", query, "--schema", schema, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [n["node"] for n in plan["trees"][0]["nodes"]] == ["[x0]", "a", "b"]
    plan["trees"][0]["nodes"] = [{"node": "b", "parent": None}, {"node": "a", "parent": "b"}]
    edited = tmp_path / "plan.json"
    edited.write_text(json.dumps(plan))
    assert main(["explain", str(edited)]) == 0
    assert "    a · inner on b.y = a.y" in capsys.readouterr().out
    plan["trees"][0]["nodes"][1]["parent"] = "c"
    edited.write_text(json.dumps(plan))
    assert main(["explain", str(edited)]) == 2
    assert capsys.readouterr().err == (
        "freshet: trees[0]: the parent of a is c, which does not exist; the nodes are b, a\n"
    )


def test_schema_not_given(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", files[0]]) == 2
    assert "give --schema tables.sql" in capsys.readouterr().err


def test_wrong_query(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    query, schema = files
    Path(query).write_text("SELECT nothing FROM a\n")
    assert main(["explain", query, "--schema", schema]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("freshet: line 1, column 8: ")
    assert "nothing" in shown
