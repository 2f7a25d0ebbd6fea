"""Queries asked once.

Law: a view's answer is what its query gives over the tables as they stand, so a query may read it in place of that
query. Where it reads one table or view, filters, computes, sorts and cuts, nothing is built: rows are found by a key
that the condition fixes, or enumerated and left off as soon as there are enough. Every condition is checked on every
row in any case, however the row was found. Other queries are views that are made, read and thrown away, over tables and
over the answers of views. An answer that is much larger than the tables below it is not stored even then: the query
reads those tables instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from freshet.budget import given, hold
from freshet.database.aside import Aside, Reading, read
from freshet.database.prepared import form_of
from freshet.database.scan import Scan, scan_of
from freshet.database.stored import StoredViews
from freshet.database.view import as_schema
from freshet.engine.maintained import Maintained
from freshet.engine.operators import maintain
from freshet.engine.table import Table
from freshet.errors import ChangeError, EvaluationError
from freshet.logical.query import AnyQuery, Field, TableSchema
from freshet.plans import build_plan
from freshet.plans.model import AnyPlan, schemas
from freshet.scalar.arrow import to_batches
from freshet.scalar.column import Column
from freshet.sql.parse import bind_all
from freshet.sql.source import Statement
from freshet.state.arena import Arena, Scope
from freshet.state.strings import StringPool

if TYPE_CHECKING:
    from freshet.database.db import Database

_BATCH = 65_536
_MANY = 65_536  # rows of a view's answer that are stored for a query, whatever the size of the tables below it
_TIMES = 4  # as many times the rows of those tables are stored, too


class _LargeError(Exception):
    """A view's answer is too large to be stored for a query."""

    def __init__(self, view: str) -> None:
        self.view = view


@dataclass(frozen=True, slots=True)
class _World:
    """What a query reads: state itself, or a copy of it."""

    tables: Mapping[str, Table]
    view: Callable[[str], Maintained]
    pool: StringPool


def ask(db: Database, statement: Statement) -> pa.Table:
    """The answer to a statement that changes nothing; it is bound to what there is when it is answered."""
    formed, inlined = form_of(statement), set[str]()
    known = None if formed is None else db.prepared.answer(*formed)
    if known is not None:
        return known
    while True:
        try:
            answer = read(db, lambda: _asking(db, statement, inlined))
            break
        except _LargeError as e:
            inlined.add(e.view)
    if formed is not None:
        with db.state_lock:
            db.prepared.learn(*formed)
    return answer


def _asking(db: Database, statement: Statement, inlined: set[str]) -> Reading[pa.Table]:
    db.check_open()
    catalog = StoredViews.over(db.catalog, inlined)
    (query,) = bind_all([statement], catalog)
    assert isinstance(query, AnyQuery)
    return reading(db, query, catalog.stored)


def reading(db: Database, query: AnyQuery, stored: set[str]) -> Reading[pa.Table]:
    """How a query is answered; `stored`: the views among what it names as tables. Called under the state's lock."""
    scan = scan_of(query)
    plan = None if scan is not None else build_plan(query, _counts(db, stored))
    named = {scan.source.name.lower()} if scan is not None else {s.name.lower() for s in schemas(_root(plan))}
    named_views = db.views
    views = {name: named_views[name] for name in sorted(named & stored)}
    below = {name: {s.name.lower() for s in schemas(view.plan.root)} for name, view in views.items()}
    tables = sorted((named - stored).union(*below.values()))
    fields = query.fields

    def answer(world: _World) -> pa.Table:
        with _answering(db):
            if scan is not None:
                return _table(fields, _scanned(scan, world, stored))
            with _made(db, _root(plan), world, below) as kept:
                return _table(fields, kept.batches(_BATCH))

    prefixes = {name: view.maintained.scope.prefix for name, view in views.items()}
    roots = {name: view.plan.root for name, view in views.items()}
    here = _World(db.tables, lambda name: views[name].maintained, db.pool)

    def there(aside: Aside) -> pa.Table:
        kept = {name: aside.view(prefixes[name], roots[name]) for name in views}
        return answer(_World(aside.tables, kept.__getitem__, aside.pool))

    return Reading(tables, tuple(prefixes.values()), lambda: answer(here), there)


def _root(plan: AnyPlan | None) -> AnyPlan:
    assert plan is not None
    return plan


def _counts(db: Database, stored: set[str]) -> dict[str, float]:
    """Rows of tables and answers: the planner takes them for their changes."""
    counts = db.row_counts()
    return counts | dict.fromkeys(stored, max(counts.values(), default=1.0)) if counts else counts


@contextmanager
def _answering(db: Database) -> Iterator[None]:
    with db.memory.lend():
        try:
            yield
        except EvaluationError as e:
            remedy = "correct the rows, or guard the expression"
            raise ChangeError(f"the query has no answer: {e.reason}; {remedy}") from e
        except SystemError as e:  # how numba gives an exception that a signal handler has raised
            raise (e.__cause__ or e) from None


def _table(fields: tuple[Field, ...], parts: Iterator[list[Column]]) -> pa.Table:
    schema, batches = as_schema(fields), list[pa.RecordBatch]()
    for columns in parts:
        for batch in to_batches(columns, schema):
            given(batch.num_rows)
            hold(batch.nbytes)
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def _scanned(scan: Scan, world: _World, stored: set[str]) -> Iterator[list[Column]]:
    name = scan.source.name.lower()
    if name in stored:
        return scan.of_view(world.view(name), world.pool)
    return scan.of_table(world.tables[name])


@contextmanager
def _made(db: Database, plan: AnyPlan, world: _World, below: Mapping[str, set[str]]) -> Iterator[Maintained]:
    """A view that is thrown away when it was read."""
    arena, maintained = Arena(memory=db.memory), None
    try:
        tables = {schema.name.lower(): schema for schema in schemas(plan)}
        read_from = {name: world.tables[name] for name in tables if name not in below}
        for number, name in enumerate(sorted(below)):
            room = sum(world.tables[n].tuples.live for n in below[name])
            scope = arena.scope(f"answer{number}")
            read_from[name] = _stored(scope, tables[name], world, _TIMES * room + _MANY)
        maintained = maintain(arena.scope("query"), plan, read_from, world.pool)
        maintained.load([read_from[n] for n in sorted(read_from)])
        yield maintained
    finally:
        if maintained is not None:
            maintained.close()
        arena.release()


def _stored(scope: Scope, schema: TableSchema, world: _World, most: int) -> Table:
    """A view's answer as a table, unless it has more rows than that."""
    table, rows = Table(scope, schema.fields, (), world.pool), 0
    for part in world.view(schema.name.lower()).packed():
        rows += len(part)
        if rows > most:
            raise _LargeError(schema.name.lower())
        change = table.resolve(part.lanes, part.weights)
        if len(change.changed):
            table.reweigh(change)
        table.add(change)
    return table
