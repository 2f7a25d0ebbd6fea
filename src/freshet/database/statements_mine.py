"""A text of statements, run one after the other.

Law: a text is bound as a whole before any of it runs, each statement seeing what those before it define. So a mistake
that can be read off the text changes nothing; what fails while it runs is undone by itself, and what ran before it
stays, unless the text itself has opened a transaction around it. The error says which, and what stays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from freshet.budget import Budget
from freshet.errors import FreshetError
from freshet.logical.query import AnyQuery, Bracket
from freshet.logical.query import Statement as Bound
from freshet.sql.parse import bind_statement
from freshet.sql.source import Statement

if TYPE_CHECKING:
    from freshet.database.db import Database

Limit = Callable[[], AbstractContextManager[Budget]]


def bind_text(statements: list[Statement], db: Database) -> list[Bound]:
    seen, bound = db.catalog.copy(), list[Bound]()
    for number, statement in enumerate(statements):
        try:
            bound.append(bind_statement(statement, seen))
        except FreshetError as e:
            told(e, number, len(statements), "nothing was run, since a text is read as a whole first")
            raise
    return bound


def run_text(statements: list[Statement], db: Database, limit: Limit) -> Any:
    """The outcome of the last statement."""
    bound, result, opened = bind_text(statements, db), None, None
    versions: list[int] = []
    for number, (statement, each) in enumerate(zip(statements, bound, strict=True)):
        before = db.version
        try:
            with limit(), db.keeping_lock(number + 1 < len(bound)):
                result = db.ask(statement) if isinstance(each, AnyQuery) else db.run(each)
        except BaseException as e:
            kept = _kept(number)
            if opened is not None and db.session.mine:
                db.session.rollback()
                kept = f"the transaction that statement {opened + 1} began was rolled back; {_kept(opened)}"
            elif db.session.mine:
                kept += ", in the transaction that is still open"
            elif versions:
                kept += f", up to version {versions[-1]}"
            if isinstance(e, FreshetError):
                told(e, number, len(statements), kept)
            raise
        if isinstance(each, Bracket):
            opened = number if each is Bracket.BEGIN else None
        if db.version != before:
            versions.append(db.version)
    return result


def _kept(before: int) -> str:
    if before == 0:
        return "nothing was kept"
    return "statement 1 was kept" if before == 1 else f"statements 1 to {before} were kept"


def told(error: FreshetError, number: int, of: int, kept: str) -> None:
    """Has an error say which of several statements it is about, and what became of the others."""
    if of > 1:
        note = f"statement {number + 1} of {of} failed; {kept}"
        error.args = (f"{error.args[0]}\n  {note}" if error.args else note, *error.args[1:])
