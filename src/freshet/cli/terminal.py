"""Terminal output that commands share: colours, progress, refusals."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn, TextIO

from freshet.cli.results import as_json, emit
from freshet.errors import FreshetError, SqlError, StateError

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "dim": "2", "bold": "1"}


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, if the stream is a terminal and NO_COLOR does not forbid it."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def many(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def refuse(error: FreshetError | str) -> int:
    if as_json() and isinstance(error, SqlError) and error.line is not None:
        emit({"error": error.reason, "line": error.line, "column": error.column})
    elif as_json():
        emit({"error": str(error)})
    print(f"{paint('freshet:', 'red', sys.stderr)} {error}", file=sys.stderr)
    return 2


class CommandParser(argparse.ArgumentParser):
    """Refuses as all commands do, in JSON if requested."""

    def error(self, message: str) -> NoReturn:
        if as_json():
            emit({"error": message})
        super().error(message)


def adapt_option(parser: argparse.ArgumentParser) -> None:
    from freshet.database.adapt import Adapt  # imports the engine, which a refusal does not need

    parser.add_argument(
        "--adapt", type=float, default=Adapt().ratio, metavar="TIMES",
        help="views move to a join tree that is so many times cheaper (default %(default)s; 0: they stay)",
    )  # fmt: skip


def lacking(package: str) -> StateError:
    return StateError(f"this command needs {package}, which is not installed; pip install 'freshet[app]'")
