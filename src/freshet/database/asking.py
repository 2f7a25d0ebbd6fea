"""Queries that are asked once.

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

import pyarrow as pa

from freshet.budget import Memory, given, hold
from freshet.database.access import Access
from freshet.database.aside import Aside, Reading, read
from freshet.database.prepared import Prepared, form_of
from freshet.database.reading import BATCH, as_schema
from freshet.database.scan import Scan, scan_of
from freshet.database.state import State
from freshet.database.stored import StoredViews
from freshet.engine.core import tables_of
from freshet.engine.maintained import Maintained, Outlet
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


class Asking:
    def __init__(self, access: Access) -> None:
        self._access, self._state = access, access.state
        self._prepared = Prepared(access)

    def ask(self, statement: Statement) -> pa.Table:
        """The answer to a statement that changes nothing; it is bound to what there is when it is answered."""
        formed, inlined = form_of(statement), set[str]()
        known = None if formed is None else self._prepared.answer(*formed)
        if known is not None:
            return known
        while True:
            try:
                answer = read(self._state, lambda: self._bound(statement, inlined))
                break
            except _LargeError as e:
                inlined.add(e.view)
        if formed is not None:
            with self._state.lock:
                self._prepared.learn(*formed)
        return answer

    def answer(self, query: AnyQuery) -> pa.Table:
        """The answer to a query that is part of a change."""
        return read(self._state, lambda: self._asking(query, set()))

    def _bound(self, statement: Statement, inlined: set[str]) -> Reading[pa.Table]:
        self._access.check_open()
        catalog = StoredViews.over(self._state.catalog, inlined)
        (query,) = bind_all([statement], catalog)
        assert isinstance(query, AnyQuery)
        return self._asking(query, catalog.stored)

    def _asking(self, query: AnyQuery, stored: set[str]) -> Reading[pa.Table]:
        """How a query is answered; `stored`: the views among what it names as tables. Called under the state's lock."""
        scan, state = scan_of(query), self._state
        plan = None if scan is not None else build_plan(query, _counts(state, stored))
        named = {scan.source.name.lower()} if scan is not None else tables_of(_root(plan))
        views = {name: self._access.views.named[name] for name in sorted(named & stored)}
        below = {name: tables_of(view.plan.root) for name, view in views.items()}
        tables = sorted((named - stored).union(*below.values()))
        fields = query.fields

        def answer(world: _World) -> pa.Table:
            with _answering(state.memory):
                if scan is not None:
                    return _table(fields, _scanned(scan, world, stored))
                with _made(state.memory, _root(plan), world, below) as kept:
                    return _table(fields, kept.batches(BATCH))

        operators = {name: view.operator for name, view in views.items()}
        roots = {name: view.plan.root for name, view in views.items()}
        here = _World(state.core.tables, operators.__getitem__, state.core.pool)

        def there(aside: Aside) -> pa.Table:
            kept = {name: aside.view(operators[name].scope.prefix, roots[name]) for name in views}
            return answer(_World(aside.core.tables, kept.__getitem__, aside.core.pool))

        return Reading(tables, [o.scope.prefix for o in operators.values()], lambda: answer(here), there)


def _root(plan: AnyPlan | None) -> AnyPlan:
    assert plan is not None
    return plan


def _counts(state: State, stored: set[str]) -> dict[str, float]:
    """Rows of tables and answers: the planner takes them for their changes."""
    counts = state.row_counts()
    return counts | dict.fromkeys(stored, max(counts.values(), default=1.0)) if counts else counts


@contextmanager
def _answering(memory: Memory) -> Iterator[None]:
    with memory.lend():
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
def _made(memory: Memory, plan: AnyPlan, world: _World, below: Mapping[str, set[str]]) -> Iterator[Maintained]:
    """A view that is thrown away when it was read."""
    arena, maintained = Arena(memory=memory), None
    try:
        tables = {schema.name.lower(): schema for schema in schemas(plan)}
        read_from = {name: world.tables[name] for name in tables if name not in below}
        for number, name in enumerate(sorted(below)):
            room = sum(world.tables[n].tuples.live for n in below[name])
            scope = arena.scope(f"answer{number}")
            read_from[name] = _stored(scope, tables[name], world, _TIMES * room + _MANY)
        maintained = maintain(arena.scope("query"), plan, read_from, world.pool, Outlet(open=False))
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
