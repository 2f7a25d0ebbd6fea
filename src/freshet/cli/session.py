"""A session of the prompt: runs statements and commands, and prints their results.

A command stands on a line of its own between statements and begins with a backslash or a dot; `help`, `exit` and `quit`
need neither. Commands that have an equivalent in SQL run it: \\d is SHOW or DESCRIBE,
\\explain is EXPLAIN ANALYZE.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import freshet
from freshet.cli.files import Files
from freshet.cli.formats import FORMATS, as_objects, cell, written
from freshet.cli.progress import working
from freshet.cli.reading import read_text
from freshet.cli.results import as_json, emit
from freshet.cli.terminal import many, paint
from freshet.database.transaction import Transaction
from freshet.database.view import View
from freshet.errors import SqlError, StateError
from freshet.sql.source import SqlText

HELP = """\
  SHOW TABLES; SHOW VIEWS; DESCRIBE name; EXPLAIN [ANALYZE] view or query;
  COPY t FROM 'f.csv'; COPY (SELECT ...) TO 'f.parquet';    files of the folder that --files names

  \\d [name]             tables and views, or the columns of one
  \\explain v            how a view is kept and what that cost; also of SELECT ...
  \\watch v | off        changes of this view alone; with --read-only, as another process makes them, until Ctrl-C
  \\delta on|off         show what each transaction changed
  \\timing on|off        how long each statement took
  \\format NAME          table, csv, json or markdown
  \\import FILE TABLE    the rows of a file into a table
  \\i FILE               run a file
  help, \\?              this                  exit, \\q   leave (Ctrl-D too)

A dot may stand for the backslash: .help, .import, .timing."""
_PLAIN = ("help", "exit", "quit")
_COMMAND = re.compile(r"\\\S*|\.[A-Za-z]+\b")
_MOST = 40


def is_command(line: str) -> bool:
    found = line.strip().rstrip(";").lower()
    return found in _PLAIN or _COMMAND.match(found) is not None


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """The statements and commands of a text in order, each with the line on which it begins, from 0."""
    begun, gathered = 0, list[str]()
    for number, line in enumerate(text.splitlines()):
        if is_command(line) and _whole("\n".join(gathered)):
            yield begun, "\n".join(gathered)
            yield number, line
            begun, gathered = number + 1, []
        else:
            gathered.append(line)
    yield begun, "\n".join(gathered)


def _whole(text: str) -> bool:
    """Whether a new line begins a new statement: the text before is empty, or ends with a semicolon outside of
    quotes."""
    try:
        tokens = SqlText(text).tokens
    except SqlError:
        return False
    return not tokens or tokens[-1].text == ";"


class SqlSession:
    """`form`: how answers are written; `files`: what COPY may read and write; `elsewhere`: whether another
    process changes the database."""

    def __init__(
        self, db: freshet.Database, as_json: bool = False, form: str = "table", files: Files | None = None,
        elsewhere: bool = False,
    ) -> None:  # fmt: skip
        self.db, self.form = db, "json" if as_json else form
        self.deltas, self.timing = True, False
        self._files, self._elsewhere = files or Files(None), elsewhere
        self._watched: str | None = None

    def execute(self, text: str) -> bool:
        """Runs statements and commands; returns whether to continue."""
        for line, piece in pieces(text):
            if is_command(piece):
                if not self.command(piece):
                    return False
            else:
                self._statements("\n" * line + piece)
        return True

    def _statements(self, text: str) -> None:
        for statement in SqlText(text).statements():
            written_so = statement.between(0, len(statement.tokens) - 1)
            # The lines before the statement are kept, so that an error has its line in the whole text.
            before = "\n" * (SqlText(text).place(statement.tokens[0].start)[0] - 1)
            start = time.perf_counter()
            with working("working"):
                if statement.tokens[0].text.upper() == "COPY":
                    (copying,) = SqlText(before + written_so).statements()
                    result: Any = self._files.copy(self.db, copying)
                else:
                    result = self.db.execute(before + written_so)
            self._show(result, time.perf_counter() - start)

    # Output ---------------------------------------------------------------------------------------------------

    def _say(self, text: str, colour: str = "dim") -> None:
        """Prints a message; to standard error if answers are for programs."""
        stream = sys.stdout if self.form == "table" and not as_json() else sys.stderr
        print(paint(text, colour, stream), file=stream)

    def _show(self, result: Any, seconds: float) -> None:
        if isinstance(result, pa.Table):
            self._rows(result)
        elif isinstance(result, Transaction):
            shown = [name for name in result.deltas if self._watched in (None, name.lower())]
            if as_json():
                changed = {name: as_objects(d) for name in shown if (d := result.deltas[name]).num_rows}
                emit({"version": result.version, "deltas": changed})
            else:
                self._say(f"version {result.version} ({1000 * seconds:.1f} ms)")
                for name in shown if self.deltas else ():
                    self._delta(name, result.deltas[name])
        elif isinstance(result, View) and not as_json():
            self._say(f"view {result.name}: {many(result.count(), 'row')}")
        elif isinstance(result, str):
            self._say(result)
        if self.timing:
            self._say(f"{1000 * seconds:.1f} ms")

    def _rows(self, table: pa.Table) -> None:
        if as_json():
            emit(*as_objects(table))
            return
        shown = table.slice(0, _MOST) if self.form == "table" else table
        for line in written(shown, self.form):
            print(line)
        if self.form == "table":
            more = f", the first {_MOST} shown" if table.num_rows > _MOST else ""
            self._say(many(table.num_rows, "row") + more)

    def _delta(self, name: str, delta: pa.Table) -> None:
        for row in delta.slice(0, _MOST).to_pylist():
            weight = row.pop("_weight")
            shown = "  ".join(f"{k}={cell(v)}" for k, v in row.items())
            self._say(f"  {weight:+d} {name}: {shown}", "green" if weight > 0 else "red")
        if delta.num_rows > _MOST:
            self._say(f"  ... and {delta.num_rows - _MOST:,} more changes of {name}")

    # Commands -------------------------------------------------------------------------------------------------

    def command(self, line: str) -> bool:
        """Runs a command; returns whether to continue."""
        word, _, rest = line.strip().rstrip(";").partition(" ")
        rest = rest.strip()
        match word.lower().lstrip("\\."):
            case "q" | "quit" | "exit":
                return False
            case "d" | "describe":
                self._statements(f"DESCRIBE {rest}" if rest else "SHOW TABLES; SHOW VIEWS")
            case "explain":
                self._statements(f"EXPLAIN ANALYZE {rest}")
            case "delta":
                self.deltas = _switch("delta", rest, self.deltas)
            case "timing":
                self.timing = _switch("timing", rest, self.timing)
                self._say(f"timing is {'on' if self.timing else 'off'}")
            case "format":
                if rest not in FORMATS:
                    raise StateError(f"no format {rest or 'is named'}; there are {', '.join(FORMATS)}")
                self.form = rest
            case "import":
                path, _, table = rest.rpartition(" ")
                if not path:
                    raise StateError(f"{word} takes a file and a table; write {word} data.csv orders")
                quoted = path.strip("'\" ").replace("\\", "\\\\").replace("'", "\\'")
                self._statements(f"COPY {table} FROM '{quoted}'")
            case "watch":
                self._watch(rest)
            case "i":
                return self.execute(read_text(rest))
            case "help" | "?":
                self._say(HELP, "bold")
            case _:
                raise StateError(f"no command {word}; \\? lists them")
        return True

    def _watch(self, name: str) -> None:
        if name in ("", "off"):
            self._watched = None
            return
        view = self.db.view(name)
        if not self._elsewhere:
            self._watched = view.name.lower()
            self._say(f"changes of {view.name} alone are shown from here on; \\watch off shows all again")
            return
        self._say(f"watching {view.name} from version {self.db.version} on; Ctrl-C ends it")
        try:
            for version, delta in view.changes():
                if not delta.num_rows:
                    continue
                if as_json():
                    emit({"version": version, "deltas": {view.name: as_objects(delta)}})
                else:
                    self._say(f"version {version}")
                    self._delta(view.name, delta)
        except KeyboardInterrupt:
            self._say("no longer watching")

    def names(self) -> list[str]:
        """Tables, views and their columns, for completion."""
        catalog = self.db.catalog
        known = [*catalog.tables.values(), *catalog.views.values()]
        return [*catalog.names(), *dict.fromkeys(f.name for k in known for f in k.fields)]


def _switch(what: str, said: str, now: bool) -> bool:
    if said not in ("", "on", "off"):
        raise StateError(f"{what} is on or off; write \\{what} on")
    return not now if not said else said == "on"
