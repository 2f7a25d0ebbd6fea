"""`freshet serve`: the live page, over a generated stream or the files of a job."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freshet.cli.check import refuse_mistakes
from freshet.cli.commands import Subparsers, command
from freshet.cli.progress import ready_kernels, working
from freshet.cli.reading import read_text
from freshet.cli.results import emit
from freshet.cli.terminal import adapt_option, lacking, paint
from freshet.demo.scenario import MODES
from freshet.demo.scenarios import SCENARIOS
from freshet.errors import PlanError
from freshet.job.options import master as wrong_master

_TEACHING = """\
The page is at http://127.0.0.1:8377/ and everything on it can be changed there.

  freshet serve                        a stream of TPC-H orders
  freshet serve --source graph         a graph's edges
  freshet serve job.sql                the tables and views of a job file, its files read in this process
  freshet serve --host 0.0.0.0 --token auto    for others, who then need the token
"""


def add(commands: Subparsers) -> None:
    parser = command(commands, "serve", _TEACHING)
    parser.add_argument("job", nargs="?", help="a job file whose tables come from files")
    arguments(parser)
    parser.set_defaults(run=run)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", choices=list(SCENARIOS), default="tpch", help="what changes (default tpch)")
    parser.add_argument("--scale", type=float, default=0.01, help="how much of it (default 0.01)")
    parser.add_argument("--mode", choices=MODES, default="sliding", help="how rows come and go (default sliding)")
    parser.add_argument("--window", type=float, default=0.2, help="share of the rows present at a time (default 0.2)")
    parser.add_argument("--speed", type=int, default=2_000, help="changed rows a second (default 2000)")
    parser.add_argument("--engine", choices=("in-process", "spark"), default="in-process", help="what keeps the views")
    parser.add_argument("--master", default="local[2]", help="Spark's master (default local[2])")
    parser.add_argument("--shards", type=int, default=2, help="shards on Spark (default 2)")
    adapt_option(parser)
    parser.add_argument(
        "--budget", type=float, default=5.0, metavar="SECONDS",
        help="processor time a query may take to be made, read, or kept through one transaction (default 5)",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="end the stream after one round, instead of going on")
    parser.add_argument("--paused", action="store_true", help="begin with the stream paused")
    parser.add_argument("--host", default="127.0.0.1", help="address (default loopback; others need --token)")
    parser.add_argument("--port", type=int, default=8377, help="port (default 8377; 0: a free one)")
    parser.add_argument(
        "--token", help="what visitors must know; '${NAME}': from the environment, auto: made up and printed"
    )
    parser.add_argument("--json", action="store_true", help="the page's address as a line of JSON")


@dataclass(frozen=True, slots=True)
class Token:
    """What visitors of the page must know. One that comes from the environment is not printed."""

    value: str | None
    variable: str | None = None

    @classmethod
    def of(cls, given: str | None) -> Token:
        if given == "auto":
            return cls(secrets.token_urlsafe(16))
        named = re.fullmatch(r"\$\{(\w+)\}", given or "")
        if named is None:
            return cls(given)
        if named[1] not in os.environ:
            raise PlanError(f"--token: the environment has no {named[1]}; export it first")
        return cls(os.environ[named[1]], given)

    def hidden(self, address: str) -> str:
        return address if self.variable is None else f"{address.partition('?')[0]}?token={self.variable}"


def run(options: argparse.Namespace) -> int:
    return serve(options, options.job)


def serve(options: argparse.Namespace, job: str | None, opened: Any = None) -> int:
    try:
        from freshet.web.feed import Settings
        from freshet.web.hub import Hub
        from freshet.web.server import Server
    except ImportError as e:
        raise lacking(e.name or "starlette") from None
    files = None
    if job is not None:
        from freshet.job.local import file_source
        from freshet.job.mistakes import find_mistakes

        found, mistakes = find_mistakes(read_text(job), Path(job).resolve().parent, options.engine == "spark")
        if mistakes:
            return refuse_mistakes(job, mistakes)
        files = file_source(found)
    given = {
        "source": "files" if files is not None else options.source, "scale": options.scale, "mode": options.mode,
        "window": options.window, "speed": options.speed, "engine": options.engine, "master": options.master,
        "shards": options.shards, "repeat": not options.once, "adapt": options.adapt,
    }  # fmt: skip
    if not 0.1 <= options.budget <= 3_600:
        raise PlanError(f"a budget of {options.budget:g} s; give 0.1 to 3,600")
    wrong = wrong_master(options.master)
    if wrong is not None:
        raise PlanError(f"--master {options.master}: {wrong}")
    hub = Hub(Settings(master=options.master), files, options.budget)
    hub.settings = hub.settings.changed(given, hub.sources, hub.masters)
    token = Token.of(options.token)
    server = Server(hub, options.host, options.port, token.value)  # a port that is taken is known before data is made
    try:
        with working("preparing the tables" + (" and starting Spark" if options.engine == "spark" else "")):
            ready_kernels()
            hub.start(paused=options.paused)
        server.start()
    except BaseException:
        server.close()
        raise
    address = token.hidden(server.address)
    if options.json:
        emit({"address": address})
    else:
        print(f"the page is at {paint(address, 'bold')}  (Ctrl-C ends it)", flush=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if opened is not None:
        opened(server.address)
    while not stop.wait(0.2):
        pass
    hub.cancel()
    server.close()
    hub.close()
    sys.stdout.flush()
    os._exit(0)  # nothing is stored, so nothing is lost; a thread inside a kernel could not be stopped
