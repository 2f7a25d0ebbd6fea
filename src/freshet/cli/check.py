"""`freshet check`: everything that can be wrong with a job file, found without running it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from freshet.cli.terminal import Commands, command, paint
from freshet.errors import FreshetError, SqlError
from freshet.job.file import JobFile, read_job
from freshet.job.options import SOURCES
from freshet.plans import plan as make_plan

_TEACHING = """\
Every mistake is listed with its line; the exit code is 2 if there is one, and 0 if the job can be started.

  freshet check job.sql
  freshet check job.sql --json
"""


@dataclass(frozen=True, slots=True)
class Mistake:
    message: str
    line: int | None = None
    column: int | None = None


def add(commands: Commands) -> None:
    parser = command(commands, "check", "find everything wrong with a job file, without running it", _TEACHING)
    parser.add_argument("job", help="the job file")
    parser.add_argument("--json", action="store_true", help="the mistakes as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    path = Path(options.job)
    job, mistakes = find_mistakes(path.read_text(), path.resolve().parent)
    if options.json:
        listed = [{"message": m.message, "line": m.line, "column": m.column} for m in mistakes]
        print(json.dumps({"job": options.job, "mistakes": listed}, indent=2, ensure_ascii=False))
    elif mistakes:
        for mistake in mistakes:
            print(f"{paint(options.job, 'bold', sys.stderr)}: {mistake.message}", file=sys.stderr)
    else:
        print(f"{paint('fine', 'green')}: {summary(job)}")
    return 2 if mistakes else 0


def summary(job: JobFile) -> str:
    return f"{_many(len(job.sources), 'table')}, {_many(len(job.views), 'view')}, {_many(len(job.sinks), 'sink')}"


def _many(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


def find_mistakes(text: str, folder: Path) -> tuple[JobFile, list[Mistake]]:
    job, wrong = read_job(text, folder)
    mistakes = [_placed(e) for e in wrong]
    for name, sql in job.views.items():
        try:
            make_plan(sql, job.catalog)
        except FreshetError as e:
            mistakes.append(Mistake(f"view {name}: {e}"))
    try:
        from freshet.job.spark_source import source_mistakes
    except ImportError:
        mistakes.append(Mistake("PySpark is not installed, and jobs run on it; pip install 'freshet[spark]'"))
    else:
        mistakes += [Mistake(m) for m in source_mistakes(job)]
    taken: dict[str, str] = {}
    for sink in job.sinks:
        path = job.path(sink.place)
        if path is not None and path in taken:
            mistakes.append(Mistake(f"sinks {taken[path]} and {sink.name} both write to {path}; give each its own"))
        taken[path or sink.name] = sink.name
    return job, mistakes


def _placed(error: SqlError) -> Mistake:
    return Mistake(str(error), error.line, error.column)


def packages_needed(job: JobFile) -> list[str]:
    """Packages of Spark that the job's sources need."""
    found = (SOURCES[s.place.format].package for s in job.sources.values())
    return list(dict.fromkeys(p for p in found if p is not None))
