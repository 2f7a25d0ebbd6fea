"""`freshet sql` as scripts use it: commands between statements, formats, and files within the folder that is open."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import freshet
from freshet.cli.files import Files
from freshet.cli.session import SqlSession, pieces
from freshet.errors import FreshetError, StateError

MADE = (
    "CREATE TABLE t (a BIGINT PRIMARY KEY, b STRING, d DATE, e DECIMAL(6,2), f BINARY);"
    "CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;"
    "CREATE MATERIALIZED VIEW w AS SELECT a FROM t;"
)


@pytest.fixture
def session(tmp_path: Path) -> SqlSession:
    db = freshet.connect()
    db.execute(MADE)
    db.apply({"t": [(1, "x|y", "2024-02-29", "1.50", b"\x00"), (2, "", None, None, None), (3, None, None, None, None)]})
    return SqlSession(db, files=Files(str(tmp_path)))


def rows(session: SqlSession) -> list[dict[str, object]]:
    answer: list[dict[str, object]] = session.db.query("SELECT * FROM t ORDER BY a").to_pylist()
    return answer


def test_commands_stand_between_statements() -> None:
    text = "SELECT 1\n.5 AS x;\n\\d\nSELECT ';\n.help\n' AS s;\nhelp\nexit"
    assert list(pieces(text)) == [
        (0, "SELECT 1\n.5 AS x;"), (2, "\\d"), (3, "SELECT ';\n.help\n' AS s;"), (6, "help"),
        (7, ""), (7, "exit"), (8, ""),
    ]  # fmt: skip


def test_formats(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT a, b, d, e, f FROM t ORDER BY a;"
    session.execute(f"\\format csv\n{query}\n.format markdown\n{query}\n\\format json\n{query}")
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.splitlines() == [
        '"a","b","d","e","f"', '1,"x|y",2024-02-29,"1.50","[00]"', '2,"",,,', "3,,,,",
        "| a | b | d | e | f |", "| --- | --- | --- | --- | --- |", "| 1 | x\\|y | 2024-02-29 | 1.50 | [00] |",
        "| 2 |  | NULL | NULL | NULL |", "| 3 | NULL | NULL | NULL | NULL |",
        '{"a": 1, "b": "x|y", "d": "2024-02-29", "e": "1.50", "f": "AA=="}',
        '{"a": 2, "b": "", "d": null, "e": null, "f": null}', '{"a": 3, "b": null, "d": null, "e": null, "f": null}',
    ]  # fmt: skip
    session.execute("DELETE FROM t WHERE a = 3;")
    shown = capsys.readouterr()
    assert shown.out == "" and "version 2" in shown.err, "what is said next to answers is not among them"


def test_commands_are_statements(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert session.execute("\\d\n\\d t\n\\explain v\n.timing on\nSELECT 1 AS one;\n\\timing\nhelp")
    shown = capsys.readouterr().out
    for line in ("t     3", "a     BIGINT        False     True", "promised   ", " ms\n", "timing is off", "\\watch v"):
        assert line in shown
    assert not session.execute("exit\nSELECT nothing;")
    for wrong, message in (("\\nothing", "no command"), ("\\format xml", "no format xml"), ("\\delta x", "on or off")):
        with pytest.raises(StateError, match=message):
            session.execute(wrong)


def test_watch_shows_one_view(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.execute("\\watch V\nINSERT INTO t (a, b) VALUES (4, 'q');\n\\watch off\nINSERT INTO t (a) VALUES (5);")
    first, _, second = capsys.readouterr().out.partition("version 3")
    assert "+1 v: b=q  n=1" in first and "w: a=4" not in first and "+1 w: a=5" in second


def test_watch_follows_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here another connection of this process, which shares nothing with the one that only reads."""
    seen, enough = list[tuple[int, list[dict[str, object]]]](), threading.Event()
    with freshet.connect(tmp_path / "db") as writer:
        writer.execute(MADE)
        with freshet.connect(tmp_path / "db", read_only=True) as reader:
            session = SqlSession(reader, elsewhere=True)

            def show(name: str, delta: pa.Table) -> None:
                seen.append((len(seen) + 1, delta.to_pylist()))
                if len(seen) == 2:
                    enough.set()
                    raise KeyboardInterrupt

            monkeypatch.setattr(session, "_delta", show)
            watching = threading.Thread(target=lambda: session.execute("\\watch w"))
            watching.start()
            writer.execute("INSERT INTO t (a) VALUES (7)")
            writer.execute("INSERT INTO t (a) VALUES (8)")
            assert enough.wait(30)
            watching.join(30)
    assert seen == [(1, [{"a": 7, "_weight": 1}]), (2, [{"a": 8, "_weight": 1}])]


@pytest.mark.parametrize("name", ["o.parquet", "o.json", "o.jsonl", "o.csv"])
def test_what_is_written_is_read_again(session: SqlSession, tmp_path: Path, name: str) -> None:
    before = rows(session)
    columns = "a, b, d, e" if name.endswith("csv") else "*"  # bytes have no form of their own in CSV
    session.execute(f"COPY (SELECT {columns} FROM t) TO '{name}'; DELETE FROM t; COPY t FROM '{name}';")
    expected = [{**row, "f": None} for row in before] if name.endswith("csv") else before
    assert rows(session) == expected
    assert [p.name for p in tmp_path.iterdir()] == [name], "nothing else is left behind"


def test_files_may_say_what_rows_do(session: SqlSession, tmp_path: Path) -> None:
    (tmp_path / "changes.csv").write_text("a,b,_change_type\n1,new,upsert\n2,,delete\n")
    session.execute(".import changes.csv t")
    assert [(row["a"], row["b"]) for row in rows(session)] == [(1, "new"), (3, None)]
    pq.write_table(pa.table({"a": [9], "b": ["z"]}), tmp_path / "it's here.bin")
    session.execute("COPY t FROM 'it\\'s here.bin' WITH (FORMAT parquet)")
    assert rows(session)[-1]["b"] == "z"


def test_only_the_folder_is_open(session: SqlSession, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.csv"
    outside.write_text("a\n77\n")
    (tmp_path / "link.csv").symlink_to(outside)
    (tmp_path / "up").symlink_to(tmp_path.parent)
    for path in ("../outside.csv", str(outside), "link.csv", "up/outside.csv"):
        with pytest.raises(StateError, match="is outside of --files"):
            session.execute(f"COPY t FROM '{path}'")
        with pytest.raises(StateError, match="is outside of --files"):
            session.execute(f"COPY t TO '{path}'")
    assert outside.read_text() == "a\n77\n"
    with pytest.raises(StateError, match="no folder is open to it; start freshet sql --files FOLDER"):
        SqlSession(session.db).execute("COPY t TO 'o.csv'")
    with pytest.raises(FreshetError, match="COPY is not supported; run it at the prompt"):
        session.db.execute("COPY t TO 'o.csv'")


def test_mistakes_in_files(session: SqlSession, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\nx,1\n")
    (tmp_path / "more.csv").write_text("a,colour\n9,1\n")
    (tmp_path / "bad.json").write_text('{"a": 9}\n[1]\n')
    (tmp_path / "deep.json").write_text('{"a": ' + "[" * 100_000)
    os.mkfifo(tmp_path / "pipe.csv")
    before = rows(session)
    for statement, message in (
        ("COPY t FROM 'none.csv'", "none.csv: no such file"),
        ("COPY t FROM 'bad.csv'", "bad.csv cannot be read as csv"),
        ("COPY t FROM 'more.csv'", "more.csv has a column colour; t has a, b, d, e, f"),
        ("COPY t FROM 'bad.json'", "bad.json, line 2, cannot be read as JSON: it is not an object"),
        ("COPY t FROM 'deep.json'", "deep.json, line 1, cannot be read as JSON: maximum recursion depth"),
        ("COPY t FROM 'pipe.csv'", "pipe.csv is not a plain file"),
        ("COPY t FROM 'x.txt'", "the format of x.txt is not"),
        ("COPY nothing FROM 'bad.csv'", "no table nothing; the tables are t"), ("COPY t", "this COPY cannot be read"),
        ("COPY (SELECT 1 AS a FROM 'x.csv'", "this COPY cannot be read"), ("COPY t TO 'no/x.csv'", "no such folder"),
        ("COPY (SELECT a FROM t) FROM 'bad.csv'", "takes a table's name"), ("COPY", "this COPY cannot be read"),
    ):  # fmt: skip
        with pytest.raises(FreshetError, match=message):
            session.execute(statement)
    assert rows(session) == before


def test_json_has_nothing_else(tmp_path: Path) -> None:
    from tests.cli.test_commands import freshet as run

    given = f"{MADE}\nhelp\n\\timing on\nINSERT INTO t (a) VALUES (1);\n\\d\nEXPLAIN v;\nCOPY t TO 'o.csv';\nexit\nNO"
    done = run("sql", "--json", "--files", str(tmp_path), given=given)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[:2] == [
        {"version": 1, "deltas": {"v": [{"b": None, "n": 1, "_weight": 1}], "w": [{"a": 1, "_weight": 1}]}},
        {"name": "t", "rows": 1},
    ]
    assert {"plan": "height     1"} in lines and "1 row to o.csv" in done.stderr
