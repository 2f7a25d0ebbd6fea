"""The `freshet` command: one module a subcommand, each with its arguments and what it does.

A mistake in the input is one message on standard error and exit code 2; a traceback is a bug of ours. Results go to
standard output, progress to standard error, and colours only to a terminal. With `--json` standard output has JSON and
nothing else (`results.py`).
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress

from freshet.cli.commands import COMMANDS
from freshet.cli.results import as_json, emit, results_only, wanted
from freshet.cli.terminal import CommandParser, paint, refuse
from freshet.errors import FreshetError
from freshet.version import __version__

_EPILOG = """\
begin here:
  freshet demo                                   TPC-H views kept fresh, on a page in your browser
  freshet sql                                    a prompt: create tables and views, insert, watch
  freshet explain query.sql --schema tables.sql  what a query would cost to keep fresh, and why
  freshet run job.sql --checkpoint folder        tables, views and sinks of a job file, on Spark
"""


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
    with results_only() if wanted(given) else nullcontext():
        return _run(given)


def _run(given: list[str]) -> int:
    options = parser(next((word for word in given if not word.startswith("-")), "")).parse_args(given)
    try:
        return int(options.run(options))
    except FreshetError as error:
        return refuse(error)
    except BrokenPipeError:  # whoever read the output has seen enough
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        full = "; free some of it, or set TMPDIR to a folder on another disk" if error.errno == errno.ENOSPC else ""
        return refuse((f"{error.filename}: {error.strerror}" if error.filename else str(error)) + full)
    except MemoryError:
        return refuse("the memory does not suffice; give less data, or use a machine with more")
    except KeyboardInterrupt:
        if as_json():
            emit({"error": "it was interrupted"})
        return 130
    except Exception as error:  # a bug of ours, whose traceback goes to standard error
        if as_json():
            emit({"error": f"something broke inside: {type(error).__name__}: {error}"})
        raise


def parser(called: str) -> argparse.ArgumentParser:
    """Reads a command line that calls one command, or none."""
    found = CommandParser(
        prog="freshet",
        description="SQL views kept fresh over changing tables.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--version", action="version", version=f"freshet {__version__}")
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands, whole=command.name == called)
    return found


__all__ = ["main", "paint", "parser"]
