"""All commands: name, module, and the line in `freshet --help`.

A command's module is imported when that command is called, so that help appears at once.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Subparsers = Any  # the type of argparse's subparsers, which is private there


@dataclass(frozen=True)
class Command:
    name: str
    module: str
    purpose: str
    add: str = "add"

    def add_to(self, commands: Subparsers, whole: bool) -> None:
        """Adds its parser: the whole parser, or only its line of help."""
        if whole:
            getattr(import_module(f"freshet.cli.{self.module}"), self.add)(commands)
        else:
            commands.add_parser(self.name, help=self.purpose, add_help=False)


#: In the order in which newcomers need them.
COMMANDS = (
    Command("demo", "demo", "open the live page over a stream of TPC-H orders"),
    Command("sql", "prompt", "an interactive prompt over a database in this process"),
    Command("explain", "explain", "say which join tree a query gets, which guarantees hold, and why"),
    Command("plan", "explain", "print the plan of a query as JSON", add="add_plan"),
    Command("check", "check", "find everything wrong with a job file, without running it"),
    Command("run", "run", "run a job file on Spark"),
    Command("serve", "serve", "show the live page: write SQL, see the plan, watch the answer"),
    Command("enclosure", "enclosure", "measure how hard a stream of changes is to maintain (its λ)"),
    Command("bench", "bench", "measure how fast views are kept fresh on this machine"),
    Command("recover", "recover", "recover a database whose log was damaged"),
    Command("doctor", "doctor", "say what is missing on this machine, and how to fix it"),
)
_PURPOSES = {command.name: command.purpose for command in COMMANDS}


def command(commands: Subparsers, name: str, teaching: str = "") -> argparse.ArgumentParser:
    """The parser of a command, whose help ends with examples."""
    purpose = _PURPOSES[name]
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=purpose, description=purpose[0].upper() + purpose[1:] + ".", epilog=teaching,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    return made
