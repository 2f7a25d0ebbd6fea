"""Text → bound statements. A statement sees what the statements before it in the same text define or drop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from freshet.errors import SqlError
from freshet.logical.query import AnyQuery, is_query
from freshet.logical.rewrite import rewrite
from freshet.logical.statements import (
    AlterTable,
    Bracket,
    CreateTable,
    CreateView,
    Delete,
    DropTable,
    DropView,
    Insert,
    Update,
)
from freshet.logical.statements import Statement as Bound
from freshet.sql.alter import bind_alter
from freshet.sql.change import bind_delete, bind_insert, bind_update
from freshet.sql.define import bind_create, bind_drop
from freshet.sql.definitions import Definitions
from freshet.sql.output_names import check_reserved, check_types, named_apart
from freshet.sql.select import SelectBinder
from freshet.sql.source import SqlText, Statement

_READS = "SELECT, WITH, VALUES, CREATE TABLE, CREATE MATERIALIZED VIEW, DROP, INSERT, UPDATE, DELETE or BEGIN"
_ASKS = ("SELECT", "WITH", "VALUES", "(")
_FIRST_WORDS = (*_ASKS, "CREATE", "ALTER", "DROP", "INSERT", "UPDATE", "DELETE")
_REFUSED = {
    "MERGE": "send the changes as rows with _change_type 'upsert' and 'delete'",
    "TRUNCATE": "use DELETE FROM without WHERE",
    "COPY": "run it at the prompt, freshet sql --files FOLDER, or give db.apply what pyarrow reads",
    "EXPLAIN": "run it alone, with execute()",
    "REPLACE": "use INSERT, UPDATE and DELETE",
    "TABLE": "write SELECT * FROM it",
    "FROM": "write SELECT first",
}
_BRACKETS = {"BEGIN": Bracket.BEGIN, "START": Bracket.BEGIN, "COMMIT": Bracket.COMMIT, "ROLLBACK": Bracket.ROLLBACK}


AnyCatalog = TypeVar("AnyCatalog", bound=Definitions)


def parse(text: str, catalog: Definitions) -> list[Bound]:
    """The bound statements of the text, in order; the catalog itself is not changed."""
    return bind_all(SqlText(text).statements(), catalog)


def bind_all(statements: list[Statement], catalog: Definitions) -> list[Bound]:
    """The statements, bound one after the other; the catalog itself is not changed."""
    seen = catalog.copy()
    return [bind_statement(statement, seen) for statement in statements]


def asks_only(statements: list[Statement]) -> bool:
    """Whether the statements look like queries, which change nothing; one that begins with WITH may still be an
    INSERT."""
    words = [[token.text.upper() for token in statement.tokens] for statement in statements]
    return all(each[0] in _ASKS and "INSERT" not in each for each in words)


def bind_query(text: str, catalog: Definitions) -> AnyQuery:
    """The single query in the text."""
    return _bind_only(text, catalog)[0]


def bind_view(text: str, catalog: Definitions) -> AnyQuery:
    """The single query in the text, for use as a view."""
    query, statement = _bind_only(text, catalog)
    check_reserved(query, statement)
    return query


def _bind_only(text: str, catalog: Definitions) -> tuple[AnyQuery, Statement]:
    statements = SqlText(text).statements()
    if not statements:
        raise SqlError("a SELECT is expected, but the text is empty; write one", text, 1, 1)
    if len(statements) > 1:
        statements[1].fail("one SELECT is expected, but another statement begins here; remove it", None)
    bound = _bind(statements[0], catalog)
    if not is_query(bound):
        statements[0].fail("a SELECT is expected; run other statements with execute()", None)
    return bound, statements[0]


def bind_reading(text: str, catalog: Definitions) -> tuple[AnyQuery, set[str]]:
    """The single query in the text, for use as a view, and the tables and views named in its FROM clauses."""
    looked, read = catalog.copy(), set[str]()
    looked.recorded = read
    return bind_view(text, looked), read


def _read_by(view: CreateView, catalog: Definitions) -> tuple[AnyQuery, set[str]]:
    bound, read = bind_reading(view.sql, catalog)
    if view.name.lower() in read:
        raise SqlError(f"view {view.name} would read itself; make it under another name")
    return bound, read


def define(text: str, catalog: AnyCatalog) -> AnyCatalog:
    """Applies the text's CREATE and DROP statements to the catalog, in place, and returns it."""
    for statement in SqlText(text).statements():
        bind_statement(statement, catalog)
    return catalog


def bind_statement(statement: Statement, catalog: Definitions) -> Bound:
    """One statement, bound; what it defines or drops is recorded in the catalog."""
    statement.once = statement.tokens[0].text.upper() in _ASKS
    statement.now = None if catalog.clock is None else catalog.clock()
    bound = _bind(statement, catalog)
    _record(bound, catalog)
    return bound


def _bind(statement: Statement, catalog: Definitions) -> Bound:
    statement.functions = catalog.functions
    first = statement.tokens[0]
    word = first.text.upper()
    if word in _BRACKETS:
        return _bracket(word, statement)
    if word in _REFUSED:
        statement.refuse(word, _REFUSED[word], None)
    if word not in _FIRST_WORDS:
        statement.fail(f"no statement begins with {first.text[:40]}; begin with {_READS}", None)
    try:
        node = statement.parse()
        for kind, bind in _BINDERS:
            if isinstance(node, kind):
                return _rewritten(bind(node, statement, catalog), catalog)
    except RecursionError:
        statement.refuse("an expression this deep", "split it over FROM subqueries", None)
    statement.refuse(statement.between(0, len(statement.tokens) - 1), f"use {_READS}", None)


def _bracket(word: str, statement: Statement) -> Bracket:
    rest = [token.text.upper() for token in statement.tokens[1:]]
    if rest not in ([], ["TRANSACTION"], ["WORK"]) or (word == "START" and rest != ["TRANSACTION"]):
        whole = "START TRANSACTION" if word == "START" else word
        statement.refuse(statement.between(0, len(statement.tokens) - 1), f"write {whole} alone", None)
    return _BRACKETS[word]


def _rewritten(bound: Bound, catalog: Definitions) -> Bound:
    """The statement after the rewrite passes have run on its query, if it has one."""
    if is_query(bound):
        return rewrite(bound, catalog.views.values())
    if isinstance(bound, (Insert, Update, Delete)) and bound.query is not None:
        return replace(bound, query=rewrite(bound.query, catalog.views.values()))
    return bound


def _bind_query(node: exp.Expr, statement: Statement, catalog: Definitions) -> Bound:
    query = named_apart(SelectBinder(statement, catalog).whole(node, ordered=True))
    check_types(query, statement)
    return query


_BINDERS: tuple[
    tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], Callable[[exp.Expr, Statement, Definitions], Bound]], ...
] = (
    ((exp.Query, exp.Values), _bind_query),
    (exp.Create, bind_create),
    (exp.Alter, bind_alter),
    (exp.Drop, bind_drop),
    (exp.Insert, bind_insert),
    (exp.Update, bind_update),
    (exp.Delete, bind_delete),
)


def _record(bound: Bound, catalog: Definitions) -> None:
    """Records what this statement defines, so that later statements of the text see it."""
    if isinstance(bound, CreateTable):
        name = bound.schema.name.lower()
        if bound.replace:
            catalog.dropped(DropTable(name))  # refuses if views read it
        if bound.replace or name not in catalog.tables:
            catalog.tables[name] = bound.schema
    elif isinstance(bound, AlterTable):
        catalog.add(bound.schema)
    elif isinstance(bound, CreateView):
        if bound.replace:
            catalog.dropped(DropView(bound.name))
        if bound.replace or bound.name.lower() not in catalog.views:
            catalog.add_view(bound.name, *_read_by(bound, catalog))
    elif isinstance(bound, (DropTable, DropView)):
        for name in catalog.dropped(bound):
            catalog.drop(name)
