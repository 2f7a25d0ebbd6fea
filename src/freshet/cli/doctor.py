"""`freshet doctor`: what this machine has and lacks, and the command that fixes it."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from freshet.cli.commands import Subparsers, command
from freshet.cli.progress import ready_kernels, working
from freshet.cli.results import emit
from freshet.cli.terminal import paint
from freshet.errors import StateError
from freshet.job.file import read_job
from freshet.version import __version__

_TEACHING = """\
Each line is one thing: fine, worth knowing, or missing, with the command that fixes it. The exit code is 1 if
something is missing that the in-process library or Spark needs.

  freshet doctor
  freshet doctor --start     also starts Spark and runs a small view on it (about 20 seconds)
  freshet doctor --prepare   also archives the Java classes of Spark, so that it starts faster (about 30 seconds)
  freshet doctor --settings spark-defaults.conf
                             also reads Spark's settings, and says which do not suit
"""
FINE, NOTE, MISSING = "fine", "note", "missing"
_MARKS = {FINE: ("✓", "green"), NOTE: ("•", "yellow"), MISSING: ("✗", "red")}
_GB = 1 << 30
_SMALL = """SET trigger = 'available now'; CREATE TABLE t (k BIGINT) USING csv OPTIONS (path 'in');
CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;"""


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    state: str
    found: str
    fix: str = ""


def add(commands: Subparsers) -> None:
    parser = command(commands, "doctor", _TEACHING)
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.add_argument("--settings", metavar="FILE", help="a file of Spark's settings, as spark-defaults.conf is")
    parser.add_argument("--start", action="store_true", help="also start Spark")
    parser.add_argument("--prepare", action="store_true", help="also archive Spark's classes, so that it starts faster")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    findings = []
    settings = (partial(_settings, options.settings),) if options.settings else ()
    asked = ((_archive,) if options.prepare else ()) + ((_spark_starts,) if options.start else ())
    for check in CHECKS + settings + asked:
        for finding in check():
            findings.append(finding)
            if not options.json:
                _show(finding)
    if options.json:
        emit([asdict(f) for f in findings])
    return 1 if any(f.state == MISSING for f in findings) else 0


def _show(finding: Finding) -> None:
    mark, colour = _MARKS[finding.state]
    print(f"{paint(mark, colour)} {finding.what:<14} {finding.found}")
    if finding.fix:
        print(f"  {'':<14} {paint(finding.fix, 'bold')}")


def _python() -> Iterator[Finding]:
    yield Finding("freshet", FINE, f"{__version__} on Python {sys.version.split()[0]}")


def _packages() -> Iterator[Finding]:
    for name, purpose, extra in (
        ("pyspark", "jobs on Spark", "spark"),
        ("protobuf", "state in Spark's Python operators", "spark"),
        ("pandas", "Spark's stateful Python operators, and to_pandas()", "spark"),
        ("starlette", "the live page", "app"),
        ("prompt_toolkit", "the SQL prompt", "app"),
        ("tpchgen-cli", "the demo's TPC-H tables", "app"),
    ):
        version = _version(name)
        if version is None:
            yield Finding(name, NOTE, f"not installed; needed for {purpose}", f"pip install 'freshet[{extra}]'")
        elif name == "pandas" and int(version.split(".")[0]) >= 3:
            yield Finding(
                name, MISSING, f"{version}, and Spark 4.3 works with pandas below 3", "pip install 'pandas<3'"
            )
        else:
            yield Finding(name, FINE, version)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _java() -> Iterator[Finding]:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    fix = "apt-get install openjdk-17-jdk-headless, or set JAVA_HOME to a JDK 17 or 21"
    if java is None or not Path(java).exists():
        yield Finding(
            "java", MISSING, f"no Java{f' in JAVA_HOME={home}' if home else ''}; Spark needs JDK 17 or 21", fix
        )
        return
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = re.search(r'version "(\d+)', said)
    major = int(number[1]) if number else 0
    if major not in (17, 21):
        yield Finding("java", MISSING, f"version {major or 'unknown'} at {java}; Spark 4.3 runs on 17 or 21", fix)
        return
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
    if "jdk.incubator.vector" not in modules:
        problem = f"version {major} at {java} lacks the module jdk.incubator.vector; a full JDK has it"
        yield Finding("java", MISSING, problem, fix)
        return
    yield Finding("java", FINE, f"version {major} at {java}")


def _kernels() -> Iterator[Finding]:
    from freshet.state.kernel_cache import cache_folder

    folder = cache_folder()
    there = next(p for p in (folder, *folder.parents) if p.exists())
    took = ready_kernels()
    if not (there.is_dir() and os.access(there, os.W_OK)):
        yield Finding(
            "kernels", NOTE, f"{folder} cannot be written: each process compiles those it calls",
            "export FRESHET_CACHE=some/writable/folder",
        )  # fmt: skip
    else:
        yield Finding("kernels", FINE, f"{'kept' if took < 1 else f'compiled in {took:.0f} s, kept'} in {folder}")


def _disk() -> Iterator[Finding]:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < 2 * _GB:
        fix = "export TMPDIR=some/folder/on/a/larger/disk"
        yield Finding("disk", NOTE, f"{free / _GB:.1f} GB free in {folder}, where Spark's cached state goes", fix)
    else:
        yield Finding("disk", FINE, f"{free / _GB:,.0f} GB free in {folder}")


def _memory() -> Iterator[Finding]:
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return
    free = int(re.findall(r"MemAvailable:\s+(\d+)", text)[0]) * 1024
    state = NOTE if free < 2 * _GB else FINE
    fix = "close something, or run smaller: --master local[1]" if state == NOTE else ""
    yield Finding("memory", state, f"{free / _GB:,.1f} GB available, {os.cpu_count()} cores", fix)


def _settings(file: str) -> Iterator[Finding]:
    """Checks a file of Spark settings: on each line a name and a value, separated by blanks or =."""
    from freshet.spark.session import unsuited

    try:
        lines = Path(file).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as e:
        yield Finding("settings", MISSING, f"{file} cannot be read ({e})", "name a file of Spark's settings")
        return
    pairs = [re.split(r"\s*[=\s]\s*", line.strip(), maxsplit=1) for line in lines if line.strip()]
    given = {name: "".join(value) for name, *value in pairs if not name.startswith("#")}
    problems = list(unsuited(given, given.get("spark.master", "local[*]")))
    for needed, sentence in problems:
        fact, _, remedy = sentence.partition("; ")
        yield Finding("settings", MISSING if needed else NOTE, fact, remedy)
    if not problems:
        yield Finding("settings", FINE, f"{file} suits")


def _archive() -> Iterator[Finding]:
    if _version("pyspark") is None:
        yield Finding("class archive", MISSING, "pyspark is not installed", "pip install 'freshet[spark]'")
        return
    from freshet.spark.class_archive import make_archive

    try:
        with working("archiving the Java classes of Spark"):
            made = make_archive()
    except StateError as e:
        yield Finding("class archive", MISSING, str(e), "freshet doctor --start says whether Spark starts")
    else:
        yield Finding("class archive", FINE, f"{made.stat().st_size / 1e6:,.0f} MB in {made}")


def _spark_starts() -> Iterator[Finding]:
    """Starts Spark and runs a view over two rows with its stateful Python operators."""
    from freshet.job.run import JobRun
    from freshet.job.session import start_spark

    with tempfile.TemporaryDirectory() as folder:
        place, start = Path(folder), time.perf_counter()
        log = place / "spark.log"
        (place / "in").mkdir()
        (place / "in" / "rows.csv").write_text("1\n1\n")
        job, _ = read_job(_SMALL, place)
        try:
            with working("starting Spark"):
                spark = start_spark("local[1]", 1, log, {})
                try:
                    made = JobRun(spark, job, shards=1, checkpoint=f"{folder}/checkpoint", arena=f"{folder}/arena")
                    made.wait(threading.Event(), lambda progress, sinks: None)
                finally:
                    spark.stop()
        except Exception as e:
            lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
            said = str(e).splitlines()[:1] or [type(e).__name__]
            why = next((line for line in lines if "rror" in line), said[0].partition("; `freshet doctor`")[0])
            yield Finding("spark", MISSING, why, "fix what is said above")
            return
        rows, spent = made.sinks.counts.rows["v"], time.perf_counter() - start
        yield Finding("spark", FINE, f"started and kept a view of {rows} row in {spent:.0f} s")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (_python, _packages, _java, _kernels, _disk, _memory)
