"""`freshet recover`: recovers a database whose log was damaged, up to the last version before the damage."""

from __future__ import annotations

import argparse
from pathlib import Path

from freshet.cli.commands import Subparsers, command
from freshet.cli.progress import working
from freshet.cli.terminal import paint

_TEACHING = """\
A database that was not closed needs no command: it recovers when it is opened. This one is for a log with damaged bytes
in its middle. Everything before them is kept, and the damaged log stays in the folder under another name.

  freshet recover folder
"""


def add(commands: Subparsers) -> None:
    parser = command(commands, "recover", _TEACHING)
    parser.add_argument("folder", help="the folder of the database")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from freshet.database.recover import recover

    with working(f"reading {options.folder}"):
        found = recover(Path(options.folder))
    if found.kept is None:
        print(f"{paint('fine', 'green')}: the log is not damaged; it leads to version {found.version}")
    else:
        print(
            f"{paint('recovered', 'green')}: version {found.version}; the log with {found.lost:,} bytes from the "
            f"damage on is kept as {found.kept}"
        )
    return 0
