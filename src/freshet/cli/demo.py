"""`freshet demo`: the live page over a stream of TPC-H orders, opened in the browser."""

from __future__ import annotations

import argparse
import sys
import webbrowser

from freshet.cli.commands import Subparsers, command
from freshet.cli.serve import arguments, serve

_TEACHING = """\
Orders arrive in order of their date; when the window is full the oldest leave. TPC-H Q4 counts late orders by
priority: watch it rise, and fall back to zero as orders go. Write another query next to it, or take an example.

  freshet demo
  freshet demo --source graph --mode random
"""


def add(commands: Subparsers) -> None:
    parser = command(commands, "demo", _TEACHING)
    arguments(parser)
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    return serve(options, None, None if options.no_browser or not sys.stdout.isatty() else webbrowser.open)
