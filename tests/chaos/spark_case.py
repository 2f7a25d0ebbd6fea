"""One case on Spark: random tables, views and transactions, a stream over them whose processes are killed, and a model.

Law: each transaction is one micro-batch. At any moment, the sink therefore holds the transactions up to some
micro-batch, each once: the sum of its deltas equals DuckDB's answer over the tables at that point. So does the
checkpoint after every restart, at the last finished micro-batch. At the end all transactions are there.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.local_job import LocalJob
from freshet.errors import ChangeError, UnsupportedError
from freshet.spark.arenas import LOCK, MARKER
from freshet.spark.maintain import compile_job
from tests.chaos.spark_stream import finished
from tests.fuzz.choices import Choices
from tests.fuzz.dialect import for_duckdb
from tests.fuzz.grammar import BARE, Grammar
from tests.fuzz.question import NoOracleError, NoValueError, expected
from tests.fuzz.tables import random_tables, random_transaction
from tests.oracle import same_bag
from tests.spark.streams import Sum, view_part, write_files

ROOT = Path(__file__).resolve().parents[2]
BATCHES, VIEWS = 5, 2
LEVELS = 2  # of stateful steps, each of which starts workers of its own: more would take minutes
_LONG = 600  # seconds that a run may take
_KEPT = (
    pa.types.is_integer, pa.types.is_string, pa.types.is_decimal, pa.types.is_date, pa.types.is_floating,
    pa.types.is_binary, pa.types.is_boolean,
)  # fmt: skip


@dataclass
class Outcome:
    """The result of a case: the steps, the killed processes and the error, if any."""

    script: list[str] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    wrong: str = ""


@dataclass
class Drawn:
    """Tables, views and transactions of a case, and the expected answer of every view after each transaction."""

    ddl: str
    schemas: dict[str, pa.Schema]
    steps: list[dict[str, pa.Table]]
    views: dict[str, str] = field(default_factory=dict)
    answers: dict[str, list[pa.Table]] = field(default_factory=dict)


def draw(seed: int) -> Drawn:
    choices = Choices(seed=seed)
    tables = random_tables(choices)
    steps, states = list[dict[str, pa.Table]](), list[dict[str, pa.Table]]()
    for _ in range(BATCHES):
        while not (transaction := random_transaction(choices, tables)).changes:
            pass
        steps.append(transaction.arrow(tables))
        states.append({t.name: t.arrow() for t in tables})
    schemas = {t.name: t.arrow([]).schema.append(pa.field("_weight", pa.int64())) for t in tables}
    drawn = Drawn("; ".join(t.ddl for t in tables), schemas, steps)
    while len(drawn.views) < VIEWS:
        sql = Grammar(choices, tables).statement().replace(BARE, "")
        answers = _answers(sql, drawn, states)
        if answers is not None:
            name = f"v{len(drawn.views)}"
            drawn.views[name], drawn.answers[name] = sql, answers
    return drawn


def _answers(sql: str, drawn: Drawn, states: list[dict[str, pa.Table]]) -> list[pa.Table] | None:
    """DuckDB's answers after each transaction, if the view changes, is supported on Spark, and can be written to a file
    and compared. It is run in this process first, so that failures on Spark are caused by the injected faults."""
    try:
        compiled, total, answers = compile_job(sql, drawn.ddl, 2, {}), Sum(), list[pa.Table]()
        if compiled.levels > LEVELS:
            return None
        job = LocalJob(compiled)
        for step, state in zip(drawn.steps, states, strict=True):
            delta = job.apply(step)["view"]
            schema = delta.schema.remove(len(delta.schema) - 1)
            if not all(any(kept(f.type) for kept in _KEPT) and f.name.isidentifier() for f in schema):
                return None
            total.add(delta)
            answers.append(expected(for_duckdb(sql), state))
            same_bag(total.answer(schema), answers[-1])
        return answers if len({t.num_rows for t in answers}) > 1 else None
    except (UnsupportedError, NoOracleError, NoValueError, ChangeError):
        return None


@dataclass(frozen=True)
class Kill:
    """The victim, the micro-batch of the run, and the moment: some seconds after it has `begun`, while a shard is
    `changing`, or when the sink has it, `written` and not finished."""

    what: str
    batch: int
    when: str
    later: float = 0.0

    def __str__(self) -> str:
        return f"kill the {self.what} in micro-batch {self.batch} of the run: {self.when}, {self.later:.2f} s later"


def kills(rng: random.Random) -> tuple[str, list[list[Kill]]]:
    """The master, and the kills of each run."""

    def kill(what: str, batch: int) -> Kill:
        when = rng.choice(["begun", "changing", "written"] if what == "driver" else ["begun", "changing"])
        return Kill(what, batch, when, rng.choice([0.0, rng.uniform(0, 3)]) if when == "begun" else 0.0)

    chosen = rng.randrange(10)
    if chosen < 5:
        return "local[2]", [[kill("driver", rng.randint(1, 3))] for _ in range(rng.choice([1, 1, 1, 2]))]
    if chosen < 9:
        runs = [[kill("worker", batch) for batch in sorted(rng.sample(range(1, 4), rng.randint(1, 3)))]]
        if rng.random() < 0.5:
            runs[0].append(kill("driver", 4))
        return "local[2,4]", runs
    return "local-cluster[2,1,1024]", [[kill("executor", rng.randint(1, 3))]]


def run_case(seed: int) -> Outcome:
    outcome, rng = Outcome(), random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="freshet-chaos-spark-"))
    try:
        drawn = draw(seed)
        write_files(folder / "in", drawn.schemas, drawn.steps)
        (folder / "answers").mkdir()
        case = {"ddl": drawn.ddl, "views": drawn.views, "tables": list(drawn.schemas)}
        (folder / "case.json").write_text(json.dumps(case))
        outcome.script += [drawn.ddl, *(f"{name}: {sql}" for name, sql in drawn.views.items())]
        master, runs = kills(rng)
        outcome.script.append(f"on {master}")
        _run(folder, drawn, master, runs, rng, outcome)
    except AssertionError as e:
        outcome.wrong = str(e) or "an assertion"
        if (folder / "log").exists():
            outcome.wrong += "\n" + (folder / "log").read_text(errors="replace")[-3_000:]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _run(folder: Path, drawn: Drawn, master: str, runs: list[list[Kill]], rng: random.Random, outcome: Outcome) -> None:
    for planned in [*runs, []]:
        ended = _one_run(folder, master, planned, rng, outcome)
        batch = check(folder, drawn)
        outcome.script.append(f"  {'ended' if ended == 0 else 'gone'}; the sink has micro-batches up to {batch}")
        if ended == 0:
            break
        assert planned, f"a run that nobody disturbed ended with {ended}"
        outcome.restarts += 1
    assert batch == len(drawn.steps) - 1, f"the sink ends with micro-batch {batch}"
    assert finished(folder) == batch
    read = [name.split("-") for name in os.listdir(folder / "answers")]
    assert {(b, view) for _, b, view in read} >= {(str(batch), view) for view in drawn.views}, read


def _one_run(folder: Path, master: str, planned: list[Kill], rng: random.Random, outcome: Outcome) -> int:
    """How the process has ended, by itself or killed."""
    before, running, limit = _begun(folder), _start(folder, master), time.monotonic() + _LONG
    try:
        for kill in planned:
            while not _is_time(folder, before + kill.batch, kill.when) and running.poll() is None:
                assert time.monotonic() < limit, f"nothing has happened for {_LONG} s"
                time.sleep(0.002)
            time.sleep(kill.later)
            if running.poll() is None and _kill(running, kill.what, rng):
                outcome.script.append(f"  {kill}")
                outcome.killed[kill.what] += 1
        while running.poll() is None:
            assert time.monotonic() < limit, f"a run has not ended after {_LONG} s"
            time.sleep(0.05)
        return running.returncode
    finally:
        _end(running)


def _start(folder: Path, master: str) -> subprocess.Popen[bytes]:
    places = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.spark_stream", str(folder), master], stdout=log, stderr=log,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": places}, start_new_session=True,
        )  # fmt: skip


def _begun(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "offsets").glob("[0-9]*")))


def _is_time(folder: Path, batch: int, when: str) -> bool:
    """Whether that is so in a micro-batch, counted from 1, or it is over."""
    if when == "written":
        return (folder / "out" / "_spark_metadata" / str(batch - 1)).exists()
    if _begun(folder) < batch:
        return False
    if when == "begun" or _begun(folder) > batch or finished(folder) >= batch - 1:
        return True
    return any(not (lock.parent / MARKER).exists() for lock in (folder / "arena").rglob(LOCK))


def _kill(running: subprocess.Popen[bytes], what: str, rng: random.Random) -> bool:
    """Whether there was such a process of the stream's own."""
    if what == "driver":
        _end(running)
        return True
    wanted: Callable[[psutil.Process], bool] = _is_worker if what == "worker" else _is_executor
    for _ in range(100):
        try:
            victims = [p for p in psutil.Process(running.pid).children(recursive=True) if wanted(p)]
            if victims:
                rng.choice(victims).kill()
                return True
        except psutil.NoSuchProcess:
            if running.poll() is not None:
                return False
        time.sleep(0.02)
    return False


def _end(running: subprocess.Popen[bytes]) -> None:
    """The session that was started: Python, the JVM, its workers and executors."""
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _is_worker(process: psutil.Process) -> bool:
    """Workers are forked by a daemon of the same command line."""
    parent = process.parent()
    return "pyspark.daemon" in _command(process) and parent is not None and "pyspark.daemon" in _command(parent)


def _is_executor(process: psutil.Process) -> bool:
    return "CoarseGrainedExecutorBackend" in _command(process) and process.name() == "java"


# What is there -----------------------------------------------------------------------------------------------


def check(folder: Path, drawn: Drawn) -> int:
    """Compares the sink, and the answers that were read, with DuckDB; the last micro-batch that the sink has."""
    noted = sorted((int(f.name), f) for f in (folder / "out" / "_spark_metadata").glob("[0-9]*") if f.name.isdigit())
    assert [batch for batch, _ in noted] == list(range(len(noted))), noted
    parts = [pq.read_table(path, partitioning=None) for _, file in noted for path in _files(file)]
    batch = len(noted) - 1
    if parts:
        rows = pa.concat_tables(parts)
        for view, answers in drawn.answers.items():
            delta, total = view_part(rows, view), Sum()
            total.add(delta)
            _same(f"the sink, {view}", batch, total.answer(delta.schema.remove(len(delta.schema) - 1)), answers[batch])
    for name in os.listdir(folder / "answers"):
        if not name.startswith("."):
            _, at, view = name.split("-")
            _same(f"answer {name}", int(at), pq.read_table(folder / "answers" / name), drawn.answers[view][int(at)])
    return batch


def _files(noted: Path) -> list[str]:
    """The files that a micro-batch has added to the sink, as its log says."""
    _, *lines = noted.read_text().splitlines()
    return [json.loads(line)["path"].removeprefix("file://") for line in lines]


def _same(what: str, batch: int, actual: pa.Table, wanted: pa.Table) -> None:
    try:
        same_bag(actual, wanted)
    except AssertionError as e:
        raise AssertionError(f"{what} at micro-batch {batch}: {e}") from e
