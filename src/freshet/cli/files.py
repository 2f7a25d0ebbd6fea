"""COPY: rows from a file into a table, and answers into files.

Law: SQL can access files only inside the folder given by `--files` when the prompt was started, however a path is
written and wherever links lead. A file is read as one transaction, and written completely or not at all.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from sqlglot.tokenizer_core import Token, TokenType

from freshet.cli.formats import written
from freshet.cli.reading import check_file
from freshet.database.db import Database
from freshet.database.transaction import Transaction
from freshet.errors import ChangeError, StateError
from freshet.logical.query import TableSchema
from freshet.sql.source import Statement

_ENDINGS = {".csv": "csv", ".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_FORMATS = ("csv", "parquet", "json")
_CHANGES = {"_weight": pa.int64(), "_change_type": pa.string()}
_SHAPE = (
    "write COPY t FROM 'file', COPY t TO 'file' or COPY (SELECT ...) TO 'file', and (FORMAT csv) if it must be said"
)


@dataclass(frozen=True, slots=True)
class CopyStatement:
    """`what`: a table's or view's name, or a query in parentheses."""

    what: str
    into_table: bool
    path: str
    form: str


def read_copy(statement: Statement) -> CopyStatement:
    """The parts of a COPY statement."""
    tokens = statement.tokens
    words = [token.text.upper() for token in tokens]
    at, depth = 1, _deeper(tokens[1]) if len(tokens) > 1 else 0
    while depth and at + 1 < len(tokens):  # up to the closing parenthesis of the query
        at += 1
        depth += _deeper(tokens[at])
    into = words[at + 1 : at + 2] == ["FROM"]
    file = tokens[at + 2] if len(tokens) > at + 2 else None
    if words[at + 1 : at + 2] not in (["FROM"], ["TO"]) or file is None or file.token_type != TokenType.STRING:
        statement.fail(f"this COPY cannot be read; {_SHAPE}", None)
    what = statement.between(1, at)
    if into and at > 1:
        statement.fail("COPY ... FROM takes a table's name; write it instead of the query", None)
    rest = [word for word in words[at + 3 :] if word != "WITH"]
    form = _ENDINGS.get(Path(file.text).suffix.lower(), "")
    if rest:
        if len(rest) != 4 or rest[:2] != ["(", "FORMAT"] or rest[3] != ")":
            statement.fail(f"this COPY cannot be read; {_SHAPE}", None)
        form = rest[2].lower()
    if form not in _FORMATS:
        known = "its name ends with .csv, .parquet, .json or .jsonl, or (FORMAT ...) says csv, parquet or json"
        statement.fail(f"the format of {file.text} is not known: {known}", None)
    return CopyStatement(tokens[1].text if at == 1 else what, into, file.text, form)


def _deeper(token: Token) -> int:
    return {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)


class Files:
    """The folder whose files may be read and written; without a folder, no files."""

    def __init__(self, folder: str | None) -> None:
        if folder is not None and not Path(folder).is_dir():
            raise StateError(f"--files {folder} is not a folder; name one that is there")
        self._folder = None if folder is None else Path(folder).resolve()

    def copy(self, db: Database, statement: Statement) -> Transaction | str:
        """The transaction of the rows read, or a message about the rows written."""
        asked = read_copy(statement)
        path = self._path(asked.path)
        if asked.into_table:
            schema = db.catalog.table(asked.what)
            if schema is None:
                tables = ", ".join(t.name for t in db.catalog.tables.values()) or "none yet"
                statement.fail(f"no table {asked.what}; the tables are {tables}", asked.what)
            check_file(path)
            return db.apply({schema.name: _read(path, asked, schema)})
        query = asked.what[1:-1] if asked.what.startswith("(") else f"SELECT * FROM {statement.between(1, 1)}"
        answer = db.query(query)
        _write(answer, path, asked.form)
        return f"{answer.num_rows:,} {'row' if answer.num_rows == 1 else 'rows'} to {asked.path}"

    def _path(self, given: str) -> Path:
        if self._folder is None:
            raise StateError(f"COPY may not use {given}: no folder is open to it; start freshet sql --files FOLDER")
        try:
            path = (self._folder / given).resolve()
        except (OSError, RuntimeError, ValueError) as e:
            raise StateError(f"{given!r} is not a path ({e}); correct it") from None
        if not path.is_relative_to(self._folder):
            raise StateError(f"{given} is outside of --files {self._folder}; move the file there, or name its folder")
        return path


def _read(path: Path, asked: CopyStatement, schema: TableSchema) -> pa.Table | list[dict[str, Any]]:
    types: dict[str, Any] = {f.name: f.type.to_arrow() for f in schema.fields} | _CHANGES
    try:
        if not path.is_file():
            raise StateError(f"{asked.path} is not a plain file; name one")
        if asked.form == "parquet":
            return pq.read_table(path)
        if asked.form == "json":
            return _objects(path, asked, schema)
        found = pacsv.read_csv(path, convert_options=pacsv.ConvertOptions(column_types=types, strings_can_be_null=True,
            quoted_strings_can_be_null=False))  # fmt: skip
        unknown = [name for name in found.column_names if name not in types]
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as e:
        raise ChangeError(f"{asked.path} cannot be read as {asked.form}: {e}; correct it", schema.name) from None
    if unknown:
        columns = ", ".join(f.name for f in schema.fields)
        raise ChangeError(f"{asked.path} has a column {unknown[0]}; {schema.name} has {columns}", schema.name)
    return found


def _objects(path: Path, asked: CopyStatement, schema: TableSchema) -> list[dict[str, Any]]:
    """Reads one object per line; binary values are in base 64."""
    in_bytes = {f.name.lower() for f in schema.fields if pa.types.is_binary(f.type.to_arrow())}
    rows = []
    for number, line in enumerate(path.read_text("utf-8-sig").splitlines()):
        try:
            row = json.loads(line) if line.strip() else None
            if row is None:
                continue
            if not isinstance(row, dict):
                raise ValueError("it is not an object")
            for name in row:
                if name.lower() in in_bytes and row[name] is not None:
                    row[name] = base64.b64decode(row[name], validate=True)
        except (ValueError, TypeError, RecursionError) as e:
            reason = f"{asked.path}, line {number + 1}, cannot be read as JSON: {e}; write one object a line"
            raise ChangeError(reason, schema.name) from None
        rows.append(row)
    return rows


def _write(answer: pa.Table, path: Path, form: str) -> None:
    """Writes to a temporary file first, so that nobody sees half of it."""
    if not path.parent.is_dir():
        raise StateError(f"{path.parent}: no such folder; make it first")
    if path.is_dir():
        raise StateError(f"{path} is a folder; name a file in it")
    made, name = tempfile.mkstemp(prefix=".freshet-", dir=path.parent)
    try:
        with os.fdopen(made, "wb") as out:
            if form == "parquet":
                pq.write_table(answer, out)
            else:
                for line in written(answer, form):
                    out.write(f"{line}\n".encode())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now
