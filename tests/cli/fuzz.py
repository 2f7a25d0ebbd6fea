"""Random command lines over random files: every one exits with 0, 1 or 2, reports errors in one line, and never shows a
traceback; with --json its standard output is JSON.

    python -m tests.cli.fuzz --seed 7 --cases 2000
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from freshet.cli import main as freshet
from freshet.errors import StateError

LINE = 3_000  # characters of a message's longest line, and that is a lot
TABLE = "CREATE TABLE t (a BIGINT) USING csv OPTIONS (path 'in');"
SQL = [
    "SELECT t.a, COUNT(*) AS n FROM t JOIN u ON t.b = u.b GROUP BY t.a", "SELECT nothing FROM t", "", ";", "SELECT",
    "CREATE TABLE t (a BIGINT, b BIGINT); CREATE TABLE u (b BIGINT)", "SELECT 1 AS one", "SELECT '", "{", "\x00",
    "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2); SELECT * FROM t; SELECT 1 / 0 AS x", '{"format": 2}',
    f"{TABLE} CREATE MATERIALIZED VIEW v AS SELECT a FROM t; CREATE SINK s FROM v USING console;",
    "SET shards = x; SET y = 1", "CREATE SINK s FROM v USING csv", "(" * 900,
    "CREATE TABLE t (a BIGINT) USING csv OPTIONS (path '${NO}')", "SELECT CAST('x' AS INT) AS a", "漢字", "-- only",
    "WITH RECURSIVE r AS (SELECT 1 AS a) SELECT * FROM r", "SELECT * FROM t, t, t", "SELECT 1e999 AS a",
    "SELECT 10000000000000000000000 AS a, ARRAY_AGG(b) AS l FROM VALUES (1), (2) AS v(b)",
    "SELECT '\U0001f642' AS `=\n`", "SHOW TABLES; SHOW VIEWS", "EXPLAIN SELECT 1 AS a", "DESCRIBE nothing",
    "help\nexit", "CREATE TABLE t (x BIGINT);\nCOPY t FROM '0.csv';\n\\d t\nCOPY t TO 'o.json'", "COPY",
    ".import 0.csv t", "\\watch v",
]  # fmt: skip
WORDS = [
    "", "-", "--", "-1", "0", "1", "2", "nan", "inf", "-inf", "1e400", "0.01", "99999", "x", "a b", "漢", "\udcff", "*",
    "v=p.json", "v", "=", "[", "127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "[::1]", "localhost", "auto", "${HOME}",
    "${}", "long enough", "local[1]", "local", "spark://h:1", "tpch", "graph", "sliding", "in-process", "/dev/null",
    "/", ".", "..", "~", "/proc/self/mem", "s3://bucket/x", "\n", "a" * 5_000, "--json", "--help", "%s", "{}", "$(x)",
]  # fmt: skip
#: Where a database may be created: within the folder of this run.
PLACES = ["", ".", "db", "in", "0.sql", "a" * 5_000, "漢", "db/x", "0.sql/x", "\udcff"]
OPTIONS = {
    "explain": ["--schema"], "plan": ["--schema"], "check": [], "doctor": [], "enclosure": ["--plan", "--schema"],
    "bench": ["--source", "--query", "--scale", "--mode", "--window", "--transaction", "--seconds"],
    "sql": ["--db", "--adapt", "--files", "--format", "--read-only"],
    "run": ["--master", "--shards", "--checkpoint", "--plan", "--web", "--port", "--host", "--token"],
    "serve": ["--source", "--scale", "--mode", "--window", "--speed", "--engine", "--shards", "--adapt", "--budget",
              "--once", "--paused", "--host", "--port", "--token"],
}  # fmt: skip
OPTIONS["demo"] = [*OPTIONS["serve"], "--no-browser"]
TAKES_FILE = ("explain", "plan", "check", "enclosure", "sql", "run", "serve")
#: Long-running commands are not started: only the code before them is tested.
NOT_STARTED = ("freshet.web.hub.Hub.start", "freshet.job.run.run_job", "freshet.job.session.start_spark")


def files(folder: Path, draw: random.Random) -> list[str]:
    """Files of all kinds, and paths that are none."""
    for i in range(3):
        (folder / f"{i}.sql").write_text(draw.choice(SQL))
        (folder / f"{i}.json").write_text(
            draw.choice(["", "{}", "[", '{"x": 1}\n', '{"_table": "t", "x": [1]}\n', "\x00"])
        )
        (folder / f"{i}.csv").write_text(
            draw.choice(["", "x,_weight\n1,1\n", "x\n1,2,3\n", "x,_weight\n1,x\n", "\n\n", ","])
        )
        (folder / f"{i}.bin").write_bytes(draw.randbytes(100))
        table = pa.table({"x": [1, 2, None], "_weight": draw.choice([[1, 1, 1], [1, 0, -1], [None, 1, 1]])})
        pq.write_table(table, folder / f"{i}.parquet")
    (folder / "p.json").write_text(draw.choice(["{}", '{"format": 2}', "[]", "null", '{"format": 2, "trees": 7}']))
    (folder / "in").mkdir(exist_ok=True)
    return [p.name for p in folder.iterdir()]


def command_line(draw: random.Random, there: list[str]) -> list[str]:
    words = [*WORDS, *there, *there]
    command = draw.choice(list(OPTIONS)) if draw.random() < 0.97 else draw.choice(words)
    line = [command]
    if command in TAKES_FILE and draw.random() < 0.9:
        line.append(draw.choice(there) if draw.random() < 0.8 else draw.choice(words))
    for option in draw.sample(OPTIONS.get(command, []), k=min(len(OPTIONS.get(command, [])), draw.randrange(4))):
        line.append(option)
        if option not in ("--web", "--once", "--paused", "--no-browser", "--read-only"):
            line.append(draw.choice(PLACES if option == "--db" else words))
    if command == "bench":
        line += ["--seconds", "0.01", "--source", draw.choice(["graph", "market"])]
        line += ["--scale", draw.choice(["0.0001", "0", "-1", "nan", "inf", "1e-9", "1e9"])]
    if draw.random() < 0.5:
        line.insert(draw.randrange(len(line) + 1), "--json")
    return line


def judge(arguments: list[str], code: object, out: str, err: str) -> Iterator[str]:
    """Errors in the behaviour of a command."""
    if code not in (0, 1, 2):
        yield f"it ended with {code}"
    if "Traceback" in out + err:
        yield f"it shows a traceback: {err[-500:]}"
    if code == 2 and not (err + out).strip():
        yield "it says nothing"
    if max(map(len, err.splitlines()), default=0) > LINE + 5_000 * ("a" * 5_000 in arguments):
        yield f"its message is long: {err[:200]}"
    asked = any(a.startswith("--j") and "--json".startswith(a) for a in arguments)
    if asked and not {"--help", "-h"} & set(arguments):
        try:
            lines = [json.loads(line) for line in out.splitlines()]
        except ValueError:
            yield f"its output is not JSON: {out[:200]!r}"
            return
        if code == 2 and not (lines and ("error" in lines[-1] or lines[-1].get("mistakes"))):
            yield f"its failure is no object: {out[:200]!r}"


def run_once(arguments: list[str]) -> tuple[object, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code: object
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch("sys.stdin", io.StringIO("")):
        try:
            code = freshet(arguments)
        except SystemExit as stopped:
            code = stopped.code
        except BaseException:
            code = "an exception"
            err.write(traceback.format_exc())
    return code, out.getvalue(), err.getvalue()


def fuzz(seed: int, cases: int) -> tuple[list[str], Counter[object]]:
    draw, wrong, codes = random.Random(seed), list[str](), Counter[object]()
    before = Path.cwd()
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        stack.callback(os.chdir, before)
        for name in NOT_STARTED:
            stack.enter_context(mock.patch(name, side_effect=StateError("it is not started; that is all right")))
        os.chdir(folder)
        for number in range(cases):
            if number % 20 == 0:
                there = files(Path(folder), draw)
            arguments = command_line(draw, there)
            code, out, err = run_once(arguments)
            codes[code] += 1
            wrong += [f"{arguments}: {each}" for each in judge(arguments, code, out, err)]
    return wrong, codes


def main() -> int:
    options = argparse.ArgumentParser(description="Random command lines.")
    options.add_argument("--cases", type=int, default=1_000)
    options.add_argument("--seed", type=int, default=int(time.time()) % (1 << 31))
    given = options.parse_args()
    print(f"seed {given.seed}", flush=True)
    wrong, codes = fuzz(given.seed, given.cases)
    for each in wrong:
        print(f"WRONG {each}")
    print(f"exit codes {dict(codes)}; {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
