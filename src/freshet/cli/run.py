"""`freshet run`: a job file on Spark."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import freshet
from freshet.cli.check import refuse_mistakes, summary
from freshet.cli.commands import Subparsers, command
from freshet.cli.progress import LongTask, ready_kernels, working
from freshet.cli.reading import read_text
from freshet.cli.results import emit
from freshet.cli.serve import Token
from freshet.cli.terminal import many, paint, refuse
from freshet.errors import PlanError
from freshet.job.file import JobFile
from freshet.job.mistakes import find_mistakes
from freshet.job.options import AUTO, SETTINGS
from freshet.sql.parse import bind_query

if TYPE_CHECKING:
    from freshet.web.job_page import JobPage

_TEACHING = """\
A job file is SQL:

  CREATE TABLE orders (id BIGINT PRIMARY KEY, total DECIMAL(10,2))
    USING csv OPTIONS (path 'incoming/orders', header 'true', changes '_change_type');
  CREATE MATERIALIZED VIEW sums AS SELECT COUNT(*) AS orders, SUM(total) AS total FROM orders;
  CREATE SINK shown FROM sums USING console;
  CREATE SINK kept FROM sums USING materialized OPTIONS (path 'answers/sums');

Sources: parquet, orc, csv, json, tbl, rate, kafka, delta. Sinks: console, materialized, parquet, orc, csv, json,
kafka, delta. SET gives shards, checkpoint, trigger, on_error, master, packages and Spark's own settings.

Ctrl-C or SIGTERM lets the current micro-batch finish. The next run with the same checkpoint goes on from there.
"""


def add(commands: Subparsers) -> None:
    parser = command(commands, "run", _TEACHING)
    parser.add_argument("job", help="the job file")
    parser.add_argument("--master", help="Spark's master (default local[*])")
    parser.add_argument(
        "--shards",
        help="into how many parts state is split (default: the cores there are); auto: as many as the rows need",
    )
    parser.add_argument("--checkpoint", help="folder that a stopped job goes on from (default: a temporary one)")
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="rebuild the checkpoint's state if the job's views or shards have changed, or rows outgrew --shards auto",
    )
    parser.add_argument("--plan", action="append", default=[], metavar="VIEW=FILE", help="keep a view by this plan")
    parser.add_argument("--web", action="store_true", help="show the views on a page while the job runs")
    parser.add_argument("--port", type=int, default=8377, help="the page's port (default 8377; 0: a free one)")
    parser.add_argument("--host", default="127.0.0.1", help="the page's address (default loopback)")
    parser.add_argument("--token", help="what visitors must know, off loopback: a secret, '${NAME}' or auto")
    parser.add_argument("--json", action="store_true", help="each micro-batch as a line of JSON on standard output")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    text = read_text(options.job)
    with working(f"checking {options.job}"):
        job, mistakes = find_mistakes(text, Path(options.job).resolve().parent)
    if mistakes:
        return refuse_mistakes(options.job, mistakes)
    if not job.sinks and not options.web and not options.json:
        return refuse(
            f"{options.job}: no sink takes any changes; add CREATE SINK ..., or see them with --web or --json"
        )
    from freshet.job.run import described, on_signals, run_job

    master = options.master or job.settings.get("master", "local[*]")
    asked = options.shards if options.shards is not None else job.settings.get("shards", str(_cores(master)))
    for name, value, wrong in (
        ("--shards", asked, SETTINGS["shards"](asked)), ("--master", master, SETTINGS["master"](master))
    ):  # fmt: skip
        if wrong is not None:
            return refuse(job.secrets.redacted(f"{name} {value}: {wrong}"))
    shards = None if asked.lower() == AUTO else int(asked)
    plans = _plans(options.plan, job)
    ready_kernels()
    stop = threading.Event()
    on_signals(stop)
    with tempfile.TemporaryDirectory(prefix="freshet-checkpoint-") as nowhere, working("starting") as work:
        given = options.checkpoint or job.path_of(job.settings.get("checkpoint"))
        checkpoint = str(Path(given).absolute()) if given and "://" not in given else given or nowhere
        if Path(checkpoint).is_file():
            return refuse(job.secrets.redacted(f"the checkpoint {checkpoint} is a file; give a folder"))
        if given is None:
            _say("no --checkpoint is given: this run cannot be continued later")
        shown_master = job.secrets.redacted(master)
        page = _page(job, shown_master, options) if options.web else None
        parts = "as many shards as the rows need" if shards is None else many(shards, "shard")
        _say(f"starting Spark on {shown_master}: {summary(job)}, {parts}")
        work.say(f"starting Spark on {shown_master}")
        shown = _Progress(work, stop)

        def on_progress(progress: Any, sinks: Any) -> None:
            shown.changes += progress.numInputRows
            if page is not None:
                page.progressed()
            if options.json:
                emit(described(progress, sinks))
            else:
                _report(progress, sinks)

        try:
            run_job(
                job,
                on_progress=on_progress,
                plans=plans,
                master=master,
                shards=shards,
                partitions=_cores(master),
                checkpoint=checkpoint,
                watch=[] if page is None else [lambda changes, number, _: page.take(changes, number)],
                notes=None if page is None else str(page.notes),
                ready=lambda r: _ready(r, page),
                stop=stop,
                beat=shown.beat,
                rebuild=options.rebuild,
            )
        finally:
            if page is not None:
                page.close()
    _say("stopped" if stop.is_set() else "finished: there is nothing more to read")
    return 0


class _Progress:
    """Shows the current activity of a running job on the terminal."""

    def __init__(self, work: LongTask, stop: threading.Event) -> None:
        self.work = work
        self.stop = stop
        self.changes = 0
        self.looked = 0.0

    def beat(self, query: Any) -> None:
        if self.stop.is_set():
            self.work.say("stopping after the current micro-batch; Ctrl-C again does not wait")
        elif self.work.visible and time.monotonic() - self.looked > 0.5:
            self.looked = time.monotonic()
            doing = "a micro-batch is running" if query.status["isTriggerActive"] else "waiting for changes"
            self.work.say(f"{doing}; {self.changes:,} so far")


def _page(job: JobFile, master: str, options: argparse.Namespace) -> JobPage:
    from freshet.web.job_page import JobPage

    token = Token.of(options.token)
    page = JobPage(job, master, options.host, options.port, token.value)
    _say(f"the page is at {token.hidden(page.address)}")
    return page


def _ready(run: Any, page: JobPage | None) -> None:
    if page is not None:
        page.start(run)
    _say("continuing from the checkpoint" if run.resumed else "running; Ctrl-C stops after the current micro-batch")


def _plans(given: list[str], job: JobFile) -> dict[str, freshet.Plan]:
    found = {}
    for each in given:
        name, _, file = each.partition("=")
        view = next((v for v in job.views if v.lower() == name.lower()), None)
        if not file:
            raise PlanError(f"--plan {each} names no file; write --plan {name}=plan.json")
        if view is None:
            raise PlanError(f"--plan: no view {name}; the views are {', '.join(job.views)}")
        found[view] = freshet.Plan.from_json(read_text(file), job.catalog)
        if bind_query(found[view].sql, job.catalog) != bind_query(job.views[view], job.catalog):
            raise PlanError(f"{file} is a plan of another query than view {view}'s; make it from that query")
    return found


def _cores(master: str) -> int:
    named = re.fullmatch(r"local\[(\d+)\]", master)
    return int(named[1]) if named else max(1, min(os.cpu_count() or 1, 8))


def _report(progress: Any, sinks: Any) -> None:
    counts, ms = sinks.counts, progress.durationMs.get("triggerExecution", 0)
    views = "  ".join(
        f"{view} {paint(f'+{counts.appeared.get(view, 0):,}', 'green', sys.stderr)} "
        f"{paint(f'−{counts.vanished.get(view, 0):,}', 'red', sys.stderr)}"
        for view in counts.rows
    )
    _say(f"version {progress.batchId}: {many(progress.numInputRows, 'change')} in {ms:,} ms  {views}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
