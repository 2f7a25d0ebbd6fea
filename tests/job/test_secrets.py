"""Secrets of a job are used and shown nowhere: not in the checkpoint, not in messages, not on command lines."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import freshet
from freshet.cli import main
from freshet.errors import StateError
from freshet.job.checkpoint import RECORD, continued, record
from freshet.job.file import JobFile, read_job
from freshet.job.mistakes import find_mistakes
from freshet.job.secrets import Secrets, without_credentials

ROOT = Path(__file__).resolve().parents[2]
SECRET = 'h\\u n"t/e&r 2=7'
TABLE = "CREATE TABLE t (a BIGINT PRIMARY KEY) USING csv OPTIONS (path 'in');\n"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT a FROM t;\n"
SINK = "CREATE SINK s FROM v USING materialized OPTIONS (url '%s', table 't', driver 'org.example.Driver');\n"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", SECRET)
    monkeypatch.setenv("PLACE", "one")


def job_of(text: str) -> JobFile:
    job, mistakes = read_job(text, Path("/jobs"))
    assert not mistakes
    return job


def recorded(text: str) -> str:
    job = job_of(text)
    return record(job, {name: freshet.plan(sql, job.catalog) for name, sql in job.views.items()}, 1)


# The checkpoint -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://host/db?password=${PW}&user=me",
        "jdbc:postgresql://me:${PW}@host/db",
        "jdbc:sqlserver://host;user=me;password=${PW};encrypt=true",
        "jdbc:oracle:thin:me/${PW}@host:1521:db",
    ],
)
def test_a_password_is_not_kept_and_may_change(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TABLE + VIEW + SINK % url
    kept = recorded(text)
    assert SECRET not in kept and json.dumps(SECRET)[1:-1] not in kept and "hidden" not in kept
    assert json.loads(kept)["copies"]["s"]["url"].startswith(url.split("${PW}")[0] + "***")
    monkeypatch.setenv("PW", "another")
    assert continued(kept, recorded(text), "folder")


@pytest.mark.parametrize("url", ["jdbc:postgresql://me:literal@host/db", "jdbc:postgresql://host/db?password=literal"])
def test_a_password_in_the_file_is_not_copied(url: str) -> None:
    assert "literal" not in recorded(TABLE + VIEW + SINK % url)


def test_another_place_is_another_job_and_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (
        TABLE.replace("'in'", "'${PLACE}/in'") + VIEW,
        TABLE + VIEW + SINK % "jdbc:sqlite:/${PLACE}/db",
    ):
        monkeypatch.setenv("PLACE", "one-and-only")
        kept = recorded(text)
        assert "one-and-only" not in kept and "${PLACE}" in kept
        assert continued(kept, recorded(text), "folder"), "the same value is the same job"
        monkeypatch.setenv("PLACE", "somewhere-else")
        with pytest.raises(StateError, match=r"the value of \w+ was hidden \([0-9a-f]{16}\), is hidden") as refused:
            continued(kept, recorded(text), "folder")
        assert "one-and-only" not in str(refused.value) and "somewhere-else" not in str(refused.value)


def test_another_variable_is_another_job() -> None:
    kept = recorded(TABLE.replace("'in'", "'${PLACE}'") + VIEW)
    with pytest.raises(StateError, match=r"path was \${PLACE}, is /jobs/one"):
        continued(kept, recorded(TABLE.replace("'in'", "'one'") + VIEW), "folder")


# Messages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SET shards = '${PW}';" + TABLE + VIEW,
        "SET trigger = '${PW}';" + TABLE + VIEW,
        "SET master = 'spark ${PW}';" + TABLE + VIEW,
        TABLE.replace("'in'", "'${PW}/in'") + VIEW,
        TABLE.replace("'in'", "'in', changes '${PW}'") + VIEW,
        TABLE.replace("'in'", "'in', sequence 'lsn ${PW}'") + VIEW,
        TABLE + VIEW + "CREATE SINK s FROM v USING console OPTIONS (rows '${PW}');",
        TABLE + VIEW + "".join(f"CREATE SINK {s} FROM v USING csv OPTIONS (path '/${{PW}}');" for s in "ab"),
    ],
)
def test_mistakes_have_what_was_written(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    _, mistakes = find_mistakes(text, tmp_path, on_spark=False)
    assert mistakes
    (tmp_path / "job.sql").write_text(text)
    for command in (["check"], ["check", "--json"], ["run"], ["run", "--json"], ["serve"], ["serve", "--json"]):
        assert main([command[0], str(tmp_path / "job.sql"), *command[1:]]) == 2
    shown = "".join([*(m.message for m in mistakes), *capsys.readouterr()])
    assert "${PW}" in shown
    for form in (SECRET, repr(SECRET)[1:-1], json.dumps(SECRET)[1:-1], json.dumps(repr(SECRET))[2:-2]):
        assert form not in shown


def test_every_form_of_a_value_is_redacted() -> None:
    secrets = Secrets()
    assert secrets.fill("a ${PW} b", str) == f"a {SECRET} b"
    for form in (SECRET, repr(SECRET), json.dumps(SECRET), "h%5Cu%20n%22t%2Fe%26r%202%3D7"):
        assert "n" not in secrets.redacted(f"<{form}>").replace("${PW}", "")
    secrets.note("kafka.sasl.jaas.config", 'password="hunter"')
    secrets.note("header", "true")
    assert secrets.redacted('it has password="hunter" and true') == "it has *** and true"


def test_short_values_are_redacted_where_they_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "ab")
    secrets = Secrets()
    secrets.fill("${PW}", str)
    assert secrets.redacted("cab, ab and ?x=ab") == "cab, ${PW} and ?x=${PW}"


def test_credentials_in_addresses() -> None:
    for text, shown in (
        ("s3a://key:pass@bucket/x", "s3a://key:***@bucket/x"),
        ("see http://u:p@ss@h:80/ and", "see http://u:***@h:80/ and"),
        ("jdbc:x://h/db?user=u&password=p&ssl=true", "jdbc:x://h/db?user=u&password=***&ssl=true"),
        ("wasbs://c@a.net/p?sig=abc%3D&se=1", "wasbs://c@a.net/p?sig=***&se=1"),
        ("user@example.com: no password; write one", "user@example.com: no password; write one"),
    ):
        assert without_credentials(text) == shown


def test_jobs_do_not_print_their_options() -> None:
    job = job_of("SET spark.x = '${PW}';" + TABLE + VIEW + SINK % "jdbc:x:${PW}")
    assert SECRET not in repr(job) and repr(SECRET)[1:-1] not in repr(job)


# The page's token ---------------------------------------------------------------------------------------------------


def test_a_token_from_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette")
    from freshet.cli.serve import Token

    token = Token.of("${PW}")
    assert token.value == SECRET
    assert token.hidden(f"http://127.0.0.1:1/?token={SECRET}") == "http://127.0.0.1:1/?token=${PW}"
    monkeypatch.delenv("PW")
    assert main(["serve", "--token", "${PW}", "--port", "0"]) == 2
    assert "--token: the environment has no PW; export it first" in capsys.readouterr().err


# On Spark -----------------------------------------------------------------------------------------------------------

_RUN = """
import sys
from pathlib import Path
from freshet.job.file import read_job
from freshet.job.run import run_job

def ready(run):
    import os
    assert run.spark.conf.get("spark.freshet.probe") == os.environ["PW"], "Spark has the value"
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            shown = line.read_bytes()
        except OSError:
            continue
        assert os.environ["PW"].encode() not in shown, f"a command line shows it: {shown}"
    print("seen")

place = Path(sys.argv[1])
job, mistakes = read_job((place / "job.sql").read_text(), place)
assert not mistakes
kept = str(place / "checkpoint")
run_job(job, on_progress=lambda *_: None, master="local[1]", shards=1, checkpoint=kept, ready=ready)
"""


def test_nothing_is_seen_of_a_running_job(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("1\n2\n")
    (tmp_path / "job.sql").write_text(
        "SET trigger = 'available now'; SET 'spark.freshet.probe' = '${PW}';\n"
        + TABLE.replace("'in'", "'in', password '${PW}'")
        + VIEW
        + "CREATE SINK s FROM v USING materialized OPTIONS (path 'out', password '${PW}');"
    )
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(tmp_path)], capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode == 0 and "seen" in done.stdout, done.stderr
    assert SECRET not in done.stdout + done.stderr
    checkpoint = tmp_path / "checkpoint"
    assert stat.S_IMODE(checkpoint.stat().st_mode) == 0o700
    assert stat.S_IMODE((checkpoint / RECORD).stat().st_mode) == 0o600
    for path in (*checkpoint.rglob("*"), *(tmp_path / "out").rglob("*")):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
