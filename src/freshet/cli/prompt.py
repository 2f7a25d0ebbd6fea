"""`freshet sql`: statements over a database in this process, from a terminal or from a file.

Where standard input is no terminal its statements are run one after the other, and the first mistake ends it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import freshet
from freshet.cli.commands import Subparsers, command
from freshet.cli.conversation import converse
from freshet.cli.files import Files
from freshet.cli.formats import FORMATS
from freshet.cli.progress import ready_kernels
from freshet.cli.reading import read_text
from freshet.cli.session import SqlSession
from freshet.cli.terminal import adapt_option
from freshet.database.adapt import adapting
from freshet.errors import StateError

_TEACHING = """\
Statements end with a semicolon. After each transaction the views that changed show how.

  freshet=> CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT);
  freshet=> CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
  freshet=> INSERT INTO t VALUES (1, 7), (2, 7);
  freshet=> EXPLAIN ANALYZE v;
  freshet=> help

  freshet sql --db folder                        keeps the tables and views on disk
  freshet sql --db folder --read-only            reads them while another process writes
  freshet sql --files data                       COPY reads and writes files in this folder
  echo 'SELECT 1 AS one;' | freshet sql --format csv
"""


def add(commands: Subparsers) -> None:
    parser = command(commands, "sql", _TEACHING)
    parser.add_argument("file", nargs="?", help="run this file first")
    parser.add_argument("--db", help="folder that keeps the database (default: in memory)")
    parser.add_argument("--read-only", action="store_true", help="change nothing; another process may write")
    parser.add_argument("--files", metavar="FOLDER", help="folder whose files COPY may read and write (default: none)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how answers are written (default table)")
    adapt_option(parser)
    parser.add_argument("--json", action="store_true", help="answers and transactions as lines of JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.db is not None and (not options.db or Path(options.db).is_file()):
        raise StateError(f"--db {options.db or repr('')} is not a folder; name one, and it is made if it is not there")
    if options.read_only and (options.db is None or not Path(options.db).is_dir()):
        raise StateError("--read-only reads a database that is there; name its folder with --db")
    files = Files(options.files)
    ready_kernels()
    with freshet.connect(options.db, adapt=adapting(options.adapt), read_only=options.read_only) as db:
        session = SqlSession(db, options.json, options.format, files, options.read_only)
        if options.file:
            if not session.execute(read_text(options.file)) or not sys.stdin.isatty():
                return 0
        if not sys.stdin.isatty():
            session.execute(sys.stdin.read())
            return 0
        return converse(session)
