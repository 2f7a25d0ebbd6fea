"""`freshet sql`: an interactive prompt over a database in this process, with history and completion.

Where standard input is no terminal its statements are run one after the other, and the first mistake ends it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import freshet
from freshet.cli.commands import Subparsers, command
from freshet.cli.progress import ready_kernels, working
from freshet.cli.reading import read_text
from freshet.cli.results import emit
from freshet.cli.terminal import adapt_option, lacking, many, paint, refuse
from freshet.database.adapt import adapting
from freshet.database.db import inside
from freshet.database.transaction import Transaction
from freshet.database.view import View
from freshet.errors import FreshetError, StateError
from freshet.scalar.hexadecimal import shown as shown_bytes
from freshet.sql.source import Source

_TEACHING = """\
Statements end with a semicolon. After each transaction the views that changed show how.

  freshet=> CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT);
  freshet=> CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
  freshet=> INSERT INTO t VALUES (1, 7), (2, 7);
  freshet=> \\explain v

  freshet sql --db folder      keeps the tables and views on disk
  echo 'SELECT 1 AS one;' | freshet sql
"""
_HELP = """\
  \\d            tables and views            \\d name      columns of one
  \\explain v    how a view is kept, or would be: \\explain SELECT ...
  \\delta on|off show what each transaction changed
  \\i file       run a file                  \\q           leave (Ctrl-D too)"""
_WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "JOIN",
    "LEFT",
    "ON",
    "AND",
    "OR",
    "NOT",
    "EXISTS",
    "IN",
    "BETWEEN",
    "LIKE",
    "AS",
    "DISTINCT",
    "UNION",
    "ALL",
    "EXCEPT",
    "INTERSECT",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "CREATE",
    "TABLE",
    "MATERIALIZED",
    "VIEW",
    "PRIMARY",
    "KEY",
    "INSERT",
    "INTO",
    "VALUES",
    "DELETE",
    "UPDATE",
    "SET",
    "DROP",
    "BIGINT",
    "INT",
    "STRING",
    "BINARY",
    "DECIMAL",
    "DATE",
    "TIMESTAMP",
    "DOUBLE",
    "BOOLEAN",
    "NULL",
]
_MOST = 40


def add(commands: Subparsers) -> None:
    parser = command(commands, "sql", _TEACHING)
    parser.add_argument("file", nargs="?", help="run this file first")
    parser.add_argument("--db", help="folder that keeps the database (default: in memory)")
    adapt_option(parser)
    parser.add_argument("--json", action="store_true", help="answers as lines of JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.db is not None and (not options.db or Path(options.db).is_file()):
        raise StateError(f"--db {options.db or repr('')} is not a folder; name one, and it is made if it is not there")
    ready_kernels()
    with freshet.connect(options.db, adapt=adapting(options.adapt)) as db:
        session = Session(db, as_json=options.json)
        if options.file:
            session.execute(read_text(options.file))
            if not sys.stdin.isatty():
                return 0
        if not sys.stdin.isatty():
            session.execute(sys.stdin.read())
            return 0
        return _converse(session)


class Session:
    """Statements in, what they give printed."""

    def __init__(self, db: freshet.Database, as_json: bool = False) -> None:
        self.db, self.as_json, self.deltas = db, as_json, True

    def execute(self, text: str) -> None:
        for statement in Source(text).statements():
            written = statement.between(0, len(statement.tokens) - 1)
            # Lines before the statement stay, so that an error names its line in the whole text.
            before = "\n" * (Source(text).place(statement.tokens[0].start)[0] - 1)
            start = time.perf_counter()
            with working("working"):
                result = self.db.execute(before + written)
            self._show(result, time.perf_counter() - start)

    def _show(self, result: Any, seconds: float) -> None:
        if isinstance(result, pa.Table):
            self._print_rows(result)
        elif isinstance(result, Transaction):
            if self.as_json:
                changed = {n: as_objects(d) for n in result.deltas if (d := result.deltas[n]).num_rows}
                emit({"version": result.version, "deltas": changed})
                return
            print(paint(f"version {result.version} ({1000 * seconds:.1f} ms)", "dim"))
            if self.deltas:
                for name in result.deltas:
                    self._print_delta(name, result.deltas[name])
        elif isinstance(result, View) and not self.as_json:
            print(paint(f"view {result.name}: {many(result.count(), 'row')}", "dim"))

    def _print_rows(self, table: pa.Table) -> None:
        if self.as_json:
            emit(*as_objects(table))
            return
        shown = (c.to_pylist() for c in table.slice(0, _MOST).columns)
        for line in grid(table.column_names, zip(*shown, strict=True)):
            print(line)
        more = f", the first {_MOST} shown" if table.num_rows > _MOST else ""
        print(paint(many(table.num_rows, "row") + more, "dim"))

    def _print_delta(self, name: str, delta: pa.Table) -> None:
        for row in delta.slice(0, _MOST).to_pylist():
            weight = row.pop("_weight")
            shown = "  ".join(f"{k}={_cell(v)}" for k, v in row.items())
            print(paint(f"  {weight:+d} {name}: {shown}", "green" if weight > 0 else "red"))
        if delta.num_rows > _MOST:
            print(paint(f"  ... and {delta.num_rows - _MOST:,} more changes of {name}", "dim"))

    def meta(self, line: str) -> bool:
        """A command that begins with a backslash; whether to go on."""
        word, _, rest = line.strip().partition(" ")
        rest = rest.strip().rstrip(";")
        if word in ("\\q", "\\quit"):
            return False
        if word == "\\d":
            self._describe(rest)
        elif word == "\\explain":
            known = self.db.catalog.view(rest)
            print((self.db.view(rest) if known is not None else freshet.plan(rest, self.db.catalog)).explain())
        elif word == "\\delta":
            self.deltas = rest != "off"
        elif word == "\\i":
            self.execute(read_text(rest))
        else:
            print(_HELP)
        return True

    def _describe(self, name: str) -> None:
        catalog = self.db.catalog
        if name:
            known = catalog.table(name) or catalog.view(name)
            if known is None:
                raise FreshetError(f"no table or view {name}; there are {', '.join(catalog.names()) or 'none yet'}")
            for field in known.fields:
                print(f"  {field.name:<24} {field.type}{'' if field.nullable else ' NOT NULL'}")
            return
        tables = inside(self.db).state.core.tables
        for schema in catalog.tables.values():
            print(f"  table {schema.name:<20} {many(tables[schema.name.lower()].tuples.live, 'row')}")
        for view in self.db.views.values():
            print(f"  view  {view.name:<20} {many(view.count(), 'row')}")

    def words(self) -> list[str]:
        """What completion offers: names first."""
        catalog = self.db.catalog
        known = [*catalog.tables.values(), *catalog.views.values()]
        return [*catalog.names(), *dict.fromkeys(f.name for k in known for f in k.fields), *_WORDS]


def as_objects(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as objects."""
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_cell(v) if isinstance(v, bytes) else repr(v) for v in value)}]"
    return "NULL" if value is None else shown_bytes(value) if isinstance(value, bytes) else str(value)


def grid(names: list[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """Rows under their names, each column as wide as it needs."""
    cells = [names, *([_cell(v) for v in row] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    for i, line in enumerate(cells):
        yield "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
        if i == 0:
            yield "  ".join("─" * w for w in widths)


def _converse(session: Session) -> int:
    try:
        ask = _prompt(session.words)
    except ImportError:
        raise lacking("prompt_toolkit") from None
    print(f"Freshet {freshet.__version__}; \\? for help")
    while True:
        try:
            text = ask()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            if text.lstrip().startswith("\\"):
                if not session.meta(text):
                    return 0
            elif text.strip():
                session.execute(text)
        except FreshetError as e:
            refuse(e)
        except OSError as e:
            refuse(f"{e.filename}: {e.strerror}")


def _prompt(words: Callable[[], list[str]]) -> Callable[[], str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    class Words(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            begun = document.get_word_before_cursor()
            for word in words() if begun else ():
                if word.lower().startswith(begun.lower()):
                    yield Completion(word, start_position=-len(begun))

    bindings = KeyBindings()
    kept: PromptSession[str]

    @Condition
    def unfinished() -> bool:
        text = kept.default_buffer.text
        return bool(text.strip()) and not text.lstrip().startswith("\\") and not re.search(r";\s*$", text)

    @bindings.add("enter", filter=unfinished)
    def another_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "freshet"
    folder.mkdir(0o700, parents=True, exist_ok=True)
    kept = PromptSession(
        "freshet=> ", history=FileHistory(str(folder / "history")), completer=Words(), multiline=True,
        key_bindings=bindings, lexer=PygmentsLexer(SqlLexer), prompt_continuation="      -> ",
    )  # fmt: skip

    @bindings.add("enter", filter=~unfinished)
    def done(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return kept.prompt
