"""check, sql, bench, enclosure, doctor, serve: each run as a user runs it, each kind of mistake with its message."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from freshet.cli import main
from freshet.state.kernel_cache import cache_folder

ROOT = Path(__file__).resolve().parents[2]
JOB = """
CREATE TABLE t (a BIGINT PRIMARY KEY, b STRING) USING csv OPTIONS (path 'in', header 'true');
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
CREATE SINK s FROM v USING console;
"""


def freshet(*arguments: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a shell runs it."""
    return subprocess.run(
        [sys.executable, "-m", "freshet.cli", *arguments], input=given, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}, check=False,
    )  # fmt: skip


# check ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    path = tmp_path / "job.sql"
    path.write_text(JOB)
    return path


def test_check_of_a_good_job(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(job)]) == 0
    assert capsys.readouterr().out == "fine: 1 table, 1 view, 1 sink\n"


def test_check_lists_every_mistake(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text(
        JOB.replace("'in'", "'nowhere'")
        + "CREATE SINK a FROM v USING json OPTIONS (path 'o'); CREATE SINK b FROM v USING json OPTIONS (path 'o');"
        + "CREATE SINK c FROM nothing USING console;"
    )
    assert main(["check", str(job)]) == 2
    shown = capsys.readouterr().err
    assert "no view nothing; the views are v" in shown
    assert "nowhere is not there; make the folder, or correct the path" in shown
    assert "sinks a and b both write to" in shown
    assert main(["check", str(job), "--json"]) == 2
    listed = json.loads(capsys.readouterr().out)["mistakes"]
    assert len(listed) == 3 and listed[0]["line"] == 5


def test_check_of_sources(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text(
        "CREATE TABLE r (moment TIMESTAMP, value BIGINT) USING rate;"
        "CREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'in', sequence 'lsn');"
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t;"
    )
    assert main(["check", str(job)]) == 2
    shown = capsys.readouterr().err
    assert "rate has no column moment; it has timestamp and value" in shown
    assert "sequence orders changes by primary key, and it has none" in shown


# run, before Spark starts -------------------------------------------------------------------------------------------


def test_run_refuses_what_check_finds(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text(JOB.replace("FROM t", "FROM u"))
    assert main(["run", str(job)]) == 2
    assert "line 3" in capsys.readouterr().err


def test_run_without_sinks(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text(JOB.replace("CREATE SINK s FROM v USING console;", ""))
    assert main(["run", str(job)]) == 2
    assert "no sink takes any changes; add CREATE SINK" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shards", "-1"], "--shards -1: give a whole number, 1 or more"),
        (["--shards", "0"], "--shards 0: give a whole number, 1 or more"),
        (["--master", "here"], "--master here: give local[4], local[*], spark://host:port"),
        (["--checkpoint", __file__], "test_commands.py is a file; give a folder"),
        (["--web", "--port", "70000"], "the page cannot be at port 70000; give 1 to 65535"),
        (["--plan", "v"], "--plan v names no file; write --plan v=plan.json"),
        (["--plan", "w=p.json"], "--plan: no view w; the views are v"),
        (["--plan", "v=none.json"], "none.json: no such file; correct the path"),
    ],
)
def test_run_refuses_wrong_arguments(
    arguments: list[str], message: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    assert main(["run", str(job), *arguments]) == 2
    assert message in capsys.readouterr().err


# sql --------------------------------------------------------------------------------------------------------------


def test_sql_from_standard_input() -> None:
    done = freshet(
        "sql",
        given="CREATE TABLE t (a BIGINT PRIMARY KEY, b STRING);\n"
        "CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;\n"
        "INSERT INTO t VALUES (1, 'x'), (2, 'x');\nSELECT * FROM v;",
    )
    assert done.returncode == 0, done.stderr
    assert "  +1 v: b=x  n=2" in done.stdout
    assert "b  n\n─  ─\nx  2\n1 row" in done.stdout
    assert "\x1b" not in done.stdout


def test_sql_as_json_from_a_file_kept_on_disk(tmp_path: Path) -> None:
    first = tmp_path / "first.sql"
    first.write_text("CREATE TABLE t (a BIGINT PRIMARY KEY);\nINSERT INTO t VALUES (1), (2);")
    assert freshet("sql", str(first), "--db", str(tmp_path / "db"), "--json").stdout == '{"version": 1, "deltas": {}}\n'
    again = freshet("sql", "--db", str(tmp_path / "db"), "--json", given="SELECT a FROM t WHERE a > 1")
    assert again.stdout == '{"a": 2}\n'


def test_sql_as_json_is_json() -> None:
    done = freshet(
        "sql", "--json", "--adapt", "0",
        given="SELECT 1 AS a, 2 AS a, CAST('NaN' AS DOUBLE) AS n, CAST('-Infinity' AS DOUBLE) AS i, "
        "DATE '2024-02-29' AS d, 1.50 AS e, 'é' AS s, NULL AS nothing, true AS b",
    )  # fmt: skip
    assert json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON")) == {
        "a": 1, "a_2": 2, "n": "NaN", "i": "-Infinity", "d": "2024-02-29", "e": "1.50", "s": "é", "nothing": None,
        "b": True,
    }  # fmt: skip
    assert freshet("sql", given="SELECT 1 AS a, 2 AS a").stdout == "a  a_2\n─  ───\n1  2\n1 row\n"


def test_sql_mistakes_name_their_line() -> None:
    done = freshet("sql", given="CREATE TABLE t (a BIGINT);\n\nSELECT b FROM t;")
    assert done.returncode == 2
    assert "freshet: line 3, column 8: no column b" in done.stderr
    assert "Traceback" not in done.stderr


# bench, enclosure, doctor -------------------------------------------------------------------------------------------


def test_bench(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--source", "graph", "--scale", "0.001", "--query", "hubs", "--json"]) == 0
    (figures,) = json.loads(capsys.readouterr().out)
    assert figures["query"] == "hubs" and figures["changes"] == 2_000 and figures["answer_rows"] == 0
    assert main(["bench", "--source", "market", "--scale", "0.001", "--mode", "insert"]) == 0
    assert "bids that meet an ask" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "graph", "--query", "nothing"], "no query nothing; graph has two hops"),
        (["--source", "graph", "--scale", "-1"], "a scale of -1; give more than 0"),
        (["--source", "graph", "--transaction", "0"], "transactions of 0 rows; give 1 or more"),
        (["--source", "graph", "--window", "nan"], "a window of nan; give more than 0, and at most 1"),
        (["--source", "graph", "--seconds", "-1"], "-1 seconds; give more than 0"),
    ],
)
def test_bench_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_enclosure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "changes.parquet"
    pq.write_table(pa.table({"x": [1, 2, 2, 3, 3, 1], "_weight": [1, 1, -1, 1, -1, -1]}), path)
    assert main(["enclosure", str(path)]) == 0
    assert capsys.readouterr().out == "changes    6\ntuples     3\nλ          1.333\n"
    assert main(["enclosure", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tuples"] == 3


def test_enclosure_of_a_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [("a", 1, None, 1), ("b", None, 1, 1), ("b", None, 1, -1), ("b", None, 2, 1), ("b", None, 2, -1)]
    rows = [{"_table": t, "x": x, "y": y, "_weight": w} for t, x, y, w in lines]
    path, query, schema = tmp_path / "c.json", tmp_path / "q.sql", tmp_path / "s.sql"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    schema.write_text("CREATE TABLE a (x BIGINT); CREATE TABLE b (y BIGINT)")
    query.write_text("SELECT x FROM a WHERE EXISTS (SELECT * FROM b WHERE b.y = a.x)")
    assert main(["enclosure", str(path), "--plan", str(query), "--schema", str(schema)]) == 0
    assert "λ of tree  1.000" in capsys.readouterr().out
    path.write_text('{"_table": "c", "x": 1}\n')
    assert main(["enclosure", str(path), "--plan", str(query), "--schema", str(schema)]) == 2
    said = "no change is of a table of the query; it reads a, b, the changes are of c"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.txt", b"", "is not a file of changes; give one that ends in .parquet"),
        ("c.parquet", b"nothing", "cannot be read"),
        ("c.csv", b"x,_change_type\n1,upsert\n", "row 0: _change_type is 'upsert'; give one of insert, "),
        ("c.csv", b"x,_weight\n", "the sequence has no changes"),
        ("c.csv", b"x,_weight\n1,much\n", "_weight is string, not whole numbers; +n adds n copies, -n removes n"),
        ("c.csv", b"x,_weight\n1,1.5\n", "_weight is 1.5, not a whole number"),
        ("c.csv", b"x,_weight\n1,1\n2,\n", "row 1: _weight is NULL; +n adds n copies"),
        ("c.csv", b"x,_weight,_change_type\n1,1,insert\n", "rows have both _weight and _change_type; keep one"),
        (
            "c.json",
            b'{"x": [1]}\n',
            "column x is list<item: int64>, by which rows cannot be distinguished; leave it out",
        ),
        ("c.json", b'{"_table": "a", "x": 1}\n{"x": 2}\n', "row 1: _table is NULL; name the table each change is of"),
    ],
)
def test_enclosure_mistakes(
    name: str, content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert main(["enclosure", str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    checks = {f["what"]: f for f in json.loads(capsys.readouterr().out)}
    assert checks["kernels"]["state"] == "fine" and str(cache_folder()) in checks["kernels"]["found"]
    assert list(cache_folder().rglob("*.nbi")), "the folder it names holds them"
    assert checks["java"]["state"] in ("fine", "missing")
    assert code == (1 if any(f["state"] == "missing" for f in checks.values()) else 0)


@pytest.mark.long
def test_doctor_starts_spark() -> None:
    pytest.importorskip("pyspark")
    done = freshet("doctor", "--start")
    assert done.returncode == 0, done.stdout
    assert "✓ spark          started and kept a view of 1 row in " in done.stdout
    done = freshet("doctor", "--start", JAVA_HOME="/nowhere")
    assert done.returncode == 1 and "✗ spark " in done.stdout and "Traceback" not in done.stderr


def test_doctor_names_the_remedy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "✗ java           no Java in JAVA_HOME=/nowhere; Spark needs JDK 17 or 21" in shown
    assert "apt-get install openjdk-17-jdk-headless" in shown


# serve and demo -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_the_page_is_served_and_ends_on_a_signal(command: str) -> None:
    pytest.importorskip("starlette")
    extra = ["--json", "--adapt", "2.5", *(["--no-browser"] if command == "demo" else [])]
    process = subprocess.Popen(
        [sys.executable, "-m", "freshet.cli", command, "--source", "graph", "--scale", "0.001", "--port", "0", *extra],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        with urllib.request.urlopen(address, timeout=10) as page:
            assert b"<title>Freshet</title>" in page.read()
        with urllib.request.urlopen(address + "api/state", timeout=10) as answer:
            settings = json.load(answer)["settings"]
            assert settings["source"] == "graph" and settings["adapt"] == 2.5
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 can be reached by others, and there is no token; give --token"),
        (["--token", "short"], "the token has fewer than 8 characters"),
        (["--speed", "0"], "speed is 0; give 1 to 1,000,000"),
        (["--window", "2"], "window is 2.0; give 0.001 to 1"),
    ],
)
def test_serve_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette")
    assert main(["serve", "--source", "graph", "--port", "0", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_serve_refuses_sources_that_only_spark_reads(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette")
    job.write_text("CREATE TABLE r (value BIGINT) USING rate; CREATE MATERIALIZED VIEW v AS SELECT value FROM r;")
    assert main(["serve", str(job), "--port", "0"]) == 2
    assert "table r comes from rate, which only Spark reads; use freshet run --web" in capsys.readouterr().err


def test_a_job_is_served_from_its_files(job: Path) -> None:
    pytest.importorskip("starlette")
    (job.parent / "in" / "0.csv").write_text("a,b\n1,x\n2,x\n3,y\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "freshet.cli", "serve", str(job), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[4]
        state: dict[str, object] = {}
        for _ in range(600):
            with urllib.request.urlopen(address + "api/state", timeout=10) as answer:
                state = json.load(answer)
            if state["stream"] == "finished" and state["sizes"] == {"v": 2}:
                break
            time.sleep(0.1)
        assert state["sizes"] == {"v": 2} and state["sources"] == ["tpch", "graph", "market", "files"]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
