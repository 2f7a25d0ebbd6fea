"""`freshet check`: everything that can be wrong with a job file, found without running it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from freshet.cli.commands import Subparsers, command
from freshet.cli.progress import working
from freshet.cli.reading import read_text
from freshet.cli.results import as_json, emit
from freshet.cli.terminal import many, paint
from freshet.job.file import JobFile
from freshet.job.mistakes import Mistake, find_mistakes

_TEACHING = """\
Every mistake is listed with its line; the exit code is 2 if there is one, and 0 if the job can be started.

  freshet check job.sql
  freshet check job.sql --json
"""


def add(commands: Subparsers) -> None:
    parser = command(commands, "check", _TEACHING)
    parser.add_argument("job", help="the job file")
    parser.add_argument("--json", action="store_true", help="the mistakes as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    text = read_text(options.job)
    with working(f"checking {options.job}"):
        job, mistakes = find_mistakes(text, Path(options.job).resolve().parent)
    if options.json:
        emit({"job": options.job, "mistakes": [asdict(m) for m in mistakes]})
    elif mistakes:
        for mistake in mistakes:
            print(f"{paint(options.job, 'bold', sys.stderr)}: {mistake.message}", file=sys.stderr)
    else:
        print(f"{paint('fine', 'green')}: {summary(job)}")
    return 2 if mistakes else 0


def refuse_mistakes(job: str, mistakes: Sequence[Mistake]) -> int:
    """Refuses to run a job because of its mistakes."""
    if as_json():
        found = mistakes[0].message if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        emit({"error": f"{job}: {found}", "mistakes": [asdict(m) for m in mistakes]})
    for mistake in mistakes:
        print(f"{paint('freshet:', 'red', sys.stderr)} {job}: {mistake.message}", file=sys.stderr)
    return 2


def summary(job: JobFile) -> str:
    return f"{many(len(job.sources), 'table')}, {many(len(job.views), 'view')}, {many(len(job.sinks), 'sink')}"
