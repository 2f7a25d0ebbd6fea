"""A job file is SQL: text → tables with their sources, views, sinks and settings. Nothing is opened or run.

    SET name = value;
    CREATE TABLE t (...) USING format OPTIONS (name 'value', ...);
    CREATE MATERIALIZED VIEW v AS SELECT ...;
    CREATE SINK s FROM v USING format OPTIONS (name 'value', ...);

Statements see what stands before them. Reading goes on after a mistake, so that all of them are found at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from freshet.errors import SqlError
from freshet.job.options import SEQUENCE, SETTINGS, SINKS, SOURCES, Format
from freshet.job.secrets import Secrets
from freshet.logical.query import TableSchema
from freshet.logical.statements import CreateTable, CreateView
from freshet.sql import source as sql
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_statement
from freshet.sql.source import closest_first

QUARANTINE = "_quarantine"  # the name by which sinks read the changes that were set aside


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where rows come from or go to: the format and options after USING. Names of options ignore case, like Spark's."""

    format: str
    options: dict[str, str] = field(default_factory=dict, repr=False)

    def get(self, name: str) -> str | None:
        return next((v for k, v in self.options.items() if k.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class JobSource:
    schema: TableSchema
    place: Endpoint

    @property
    def sequence(self) -> tuple[str, str] | None:
        """The column that orders the changes, and its type: `sequence 'moment TIMESTAMP'`, BIGINT if not said."""
        given = self.place.get(SEQUENCE)
        if given is None:
            return None
        name, _, kind = given.strip().partition(" ")
        return name, kind.strip() or "BIGINT"


@dataclass(frozen=True, slots=True)
class JobSink:
    name: str
    view: str
    place: Endpoint


@dataclass(slots=True)
class JobFile:
    folder: Path = Path()  # relative paths are relative to this folder
    catalog: Catalog = field(default_factory=Catalog)
    sources: dict[str, JobSource] = field(default_factory=dict)  # by table, in lower case
    views: dict[str, str] = field(default_factory=dict)  # name to query, as written
    sinks: list[JobSink] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: Secrets = field(default_factory=Secrets, repr=False)

    def path(self, place: Endpoint, option: str = "path") -> str | None:
        """A path in the options, relative to the job file's folder; URIs with a scheme are unchanged."""
        return self.path_of(place.get(option))

    def path_of(self, given: str | None) -> str | None:
        return given if given is None or "://" in given else str(self.folder / given)


def read_job(text: str, folder: Path = Path()) -> tuple[JobFile, list[SqlError]]:
    """The job, and every mistake found in it."""
    job, mistakes = JobFile(folder), []
    try:
        statements = sql.SqlText(text).statements()
    except SqlError as error:
        return job, [error]
    failed: set[str] = set()  # names whose definition failed; that they are missing is not a mistake of its own
    for statement in statements:
        try:
            _StatementReader(job, statement).read()
        except SqlError as error:
            failed.add(_made(statement))
            named = re.match(r"no (?:table|view) (\w+)", error.reason)
            if named is None or named[1].lower() not in failed:
                mistakes.append(error)
    mistakes += _missing(job, text) if not mistakes else []
    return job, mistakes


def _made(statement: sql.Statement) -> str:
    """The name of the table or view that a statement creates."""
    words = [t.text for t in statement.tokens[:4]]
    return next((w.lower() for w in words if w.upper() not in ("CREATE", "TABLE", "MATERIALIZED", "VIEW")), "")


def _missing(job: JobFile, text: str) -> list[SqlError]:
    if not job.views:
        return [SqlError("the job keeps no view; add CREATE MATERIALIZED VIEW name AS SELECT ...", text, 1, 1)]
    return []


class _StatementReader:
    """Reads one statement into the job."""

    def __init__(self, job: JobFile, statement: sql.Statement) -> None:
        self.job = job
        self.statement = statement
        self.at = 0

    def read(self) -> None:
        words = [t.text.upper() for t in self.statement.tokens[:2]]
        if words[:1] == ["SET"]:
            self._setting()
        elif words == ["CREATE", "SINK"]:
            self._sink()
        elif words == ["CREATE", "TABLE"]:
            self._table()
        elif words[:1] == ["CREATE"]:
            self._view()
        else:
            known = "SET, CREATE TABLE, CREATE MATERIALIZED VIEW and CREATE SINK"
            self._fail(f"{words[0]} is not a statement of job files; these are {known}", self._token())

    # Statements -----------------------------------------------------------------------------------------------

    def _table(self) -> None:
        tokens = self.statement.tokens
        using = _outside(tokens, "USING")
        if using is None:
            self._bind(self.statement)  # mistakes before its end are reported first
            self._fail("the table has no source; write USING format OPTIONS (...) after its columns", tokens[-1])
        bound = self._bind(sql.Statement(self.statement.source, tokens[:using]))
        assert isinstance(bound, CreateTable)
        self.at = using
        schema = bound.schema
        self.job.sources[schema.name.lower()] = JobSource(schema, self._place("source", SOURCES))

    def _view(self) -> None:
        bound = self._bind(self.statement)
        if not isinstance(bound, CreateView):
            self._fail("a job file only creates tables, views and sinks; leave this out", self.statement.tokens[0])
        self.job.views[bound.name] = bound.sql

    def _bind(self, statement: sql.Statement) -> object:
        return bind_statement(statement, self.job.catalog)

    def _sink(self) -> None:
        self.at = 2
        name = self._name("a name for the sink")
        if any(s.name.lower() == name.lower() for s in self.job.sinks):
            self._fail(f"sink {name} already exists; choose another name", self.statement.tokens[2])
        self._word("FROM")
        token = self._token()
        view = self._name("the view whose changes it takes")
        views = [*self.job.views, *([QUARANTINE] if self.job.settings.get("on_error") == "quarantine" else [])]
        known = next((v for v in views if v.lower() == view.lower()), None)
        if known is None:
            listed = closest_first(view, views) if views else "none so far"
            self._fail(f"no view {view}; the views are {listed}", token)
        self.job.sinks.append(JobSink(name, known, self._place("sink", SINKS)))

    def _setting(self) -> None:
        self.at = 1
        token = self._token()
        name = self._option_name()
        name = name.lower() if name.lower() in SETTINGS else name
        if name not in SETTINGS and not name.startswith("spark."):
            self._fail(
                f"no setting {name}; there are {closest_first(name, SETTINGS)}, and Spark's own (spark.*)", token
            )
        self._skip("=")
        token = self._token()
        value = self._value(name)
        wrong = None if name not in SETTINGS else SETTINGS[name](value)
        if wrong is not None:
            self._fail(f"{name} is {value!r}; {wrong}", token)
        self._end()
        self.job.settings[name] = value

    # Parts ----------------------------------------------------------------------------------------------------

    def _place(self, what: str, known: dict[str, Format]) -> Endpoint:
        self._word("USING")
        token = self._token()
        name = self._name(f"the {what}'s format").lower()
        if name not in known:
            self._fail(f"no {what} {name}; there are {closest_first(name, known)}", token)
        place = Endpoint(name, self._options())
        self._end()
        wrong = known[name].wrong(place.options)
        if wrong is not None:
            self._fail(f"{what} {name} {wrong}", token)
        return place

    def _options(self) -> dict[str, str]:
        options: dict[str, str] = {}
        token = self._token()
        if token is None:
            return options
        self._word("OPTIONS")
        self._word("(")
        while True:
            token = self._token()
            name = self._option_name()
            if name.lower() in {n.lower() for n in options}:
                self._fail(f"option {name} is given twice; keep one", token)
            self._skip("=")
            options[name] = self._value(name)
            token = self._token()
            if token is not None and token.text == ",":
                self.at += 1
                continue
            self._word(")")
            return options

    def _option_name(self) -> str:
        token = self._next("the name of an option")
        if token.token_type == TokenType.STRING:
            return token.text
        parts = [token.text]
        while (dot := self._token()) is not None and dot.text == ".":
            self.at += 1
            parts += [".", self._next("the rest of the option's name").text]
        return "".join(parts)

    def _value(self, name: str) -> str:
        token = self._next("a value, in quotes")
        if token.text in (",", ")", "(", "="):
            self._fail("a value is missing; write it in quotes", token)

        def missing(variable: str) -> NoReturn:
            self._fail(f"the environment has no {variable}; export it before the job is started", token)

        value = self.job.secrets.fill(token.text, missing)
        self.job.secrets.note(name, value)
        return value

    def _name(self, what: str) -> str:
        token = self._next(what)
        if not re.fullmatch(r"\w+", token.text) or token.token_type == TokenType.STRING:
            self._fail(f"{token.text} does not fit here; {what} is expected", token)
        return token.text

    # Tokens ---------------------------------------------------------------------------------------------------

    def _token(self) -> Token | None:
        tokens = self.statement.tokens
        return tokens[self.at] if self.at < len(tokens) else None

    def _next(self, what: str) -> Token:
        token = self._token()
        if token is None:
            self._fail(f"the statement ends too early; {what} is expected", self.statement.tokens[-1])
        self.at += 1
        return token

    def _word(self, word: str) -> None:
        token = self._next(word)
        if token.text.upper() != word:
            self._fail(f"{token.text} does not fit here; {word} is expected", token)

    def _skip(self, word: str) -> None:
        token = self._token()
        if token is not None and token.text == word:
            self.at += 1

    def _end(self) -> None:
        token = self._token()
        if token is not None:
            self._fail(f"{token.text} does not fit here; end the statement before it with a semicolon", token)

    def _fail(self, message: str, token: Token | None) -> NoReturn:
        source = self.statement.source
        at = (token or self.statement.tokens[0]).start
        raise SqlError(self.job.secrets.redacted(message), source.text, *source.place(at))


def _outside(tokens: list[Token], word: str) -> int | None:
    """The first such word outside of parentheses."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.token_type != TokenType.STRING else 0
        if depth == 0 and token.text.upper() == word and token.token_type != TokenType.STRING:
            return i
    return None
