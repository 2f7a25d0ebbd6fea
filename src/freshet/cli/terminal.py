"""What commands share towards the terminal: colours where there is one, progress, refusals."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from freshet.errors import StateError

if TYPE_CHECKING:
    from rich.progress import Progress

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "dim": "2", "bold": "1"}

Commands = Any  # what argparse gives for its subparsers; the type is private there


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, if the stream is a terminal and NO_COLOR does not forbid it."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def refuse(message: str) -> int:
    print(f"{paint('freshet:', 'red', sys.stderr)} {message}", file=sys.stderr)
    return 2


def command(commands: Commands, name: str, purpose: str, teaching: str = "") -> argparse.ArgumentParser:
    """A subcommand whose help ends with what one does with it."""
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=purpose, description=purpose[0].upper() + purpose[1:] + ".", epilog=teaching,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    return made


def progress() -> Progress:
    """A progress bar on standard error; nothing where that is no terminal."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        raise lacking("rich") from None
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Says on standard error what takes a while: on a terminal as long as it does."""
    try:
        from rich.console import Console
    except ImportError:
        yield
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


def lacking(package: str) -> StateError:
    return StateError(f"this command needs {package}, which is not installed; pip install 'freshet[app]'")
