"""`freshet check`: everything that can be wrong with a job file, found without running it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from freshet.cli.progress import working
from freshet.cli.reading import read_text
from freshet.cli.terminal import Commands, command, many, paint
from freshet.job.file import JobFile
from freshet.job.mistakes import find_mistakes

_TEACHING = """\
Every mistake is listed with its line; the exit code is 2 if there is one, and 0 if the job can be started.

  freshet check job.sql
  freshet check job.sql --json
"""


def add(commands: Commands) -> None:
    parser = command(commands, "check", "find everything wrong with a job file, without running it", _TEACHING)
    parser.add_argument("job", help="the job file")
    parser.add_argument("--json", action="store_true", help="the mistakes as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    text = read_text(options.job)
    with working(f"checking {options.job}"):
        job, mistakes = find_mistakes(text, Path(options.job).resolve().parent)
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
    return f"{many(len(job.sources), 'table')}, {many(len(job.views), 'view')}, {many(len(job.sinks), 'sink')}"
