"""The `freshet` command: what a query would cost to keep fresh, without any data.

A mistake in the input is one message on standard error and exit code 2; a traceback is a bug of ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import freshet
from freshet.errors import FreshetError
from freshet.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        plan = freshet.plan(Path(options.query).read_text(), Path(options.schema).read_text())
        print(plan.to_json() if options.command == "plan" else plan.explain())
    except FreshetError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}")
    except UnicodeDecodeError:
        return _refuse(f"{options.query} or {options.schema} is not UTF-8 text")
    return 0


def _refuse(message: str) -> int:
    print(f"freshet: {message}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="freshet", description="SQL views kept fresh over changing tables.")
    parser.add_argument("--version", action="version", version=f"freshet {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in (
        ("explain", "say which join tree a query gets, which guarantees hold, and why"),
        ("plan", "print the plan of a query as JSON"),
    ):
        command = commands.add_parser(name, help=purpose, description=purpose)
        command.add_argument("query", help="file with one SELECT")
        command.add_argument("--schema", required=True, help="file with the CREATE TABLE statements of its tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
