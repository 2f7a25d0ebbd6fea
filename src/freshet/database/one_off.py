"""One-off queries.

Law: a view's answer equals its query over the current tables, so a query may read the answer in place of that query. A
query that only reads one table or view, filters, computes, sorts and limits builds no state: rows are found by a key
that the condition fixes, or enumerated until there are enough. Every condition is checked on every row in any case,
however the row was found. Arrow groups the rows of such a query, unless there are many (grouped.py). DuckDB answers a
query over many rows, if it is installed and known to give the same answer (via_duckdb.py). Other queries become
temporary views over tables and over the answers of views. An answer that is much larger than the tables below it is not
stored even then: the query reads those tables instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from freshet.budget import Memory, given, hold, metered
from freshet.database.access import Access
from freshet.database.bound_queries import BoundQueries, BoundQuery
from freshet.database.grouped import UnfitError, are_few
from freshet.database.prepared import Prepared, form_of
from freshet.database.reading import BATCH, as_schema
from freshet.database.scan import Scan
from freshet.database.state import State
from freshet.database.state_copy import Reading, StateCopy, read
from freshet.database.via_duckdb import DuckDB, DuckDBQuery, installed
from freshet.engine.core import tables_of
from freshet.engine.maintained import Maintained, Outlet
from freshet.engine.operators import maintain
from freshet.engine.table import Table
from freshet.errors import ChangeError, EvaluationError
from freshet.logical.query import AnyQuery, Field, RecursiveRows, TableSchema, children, key
from freshet.plans import build_plan
from freshet.plans.model import AnyPlan, schemas
from freshet.scalar.arrow import to_batches
from freshet.scalar.column import Column
from freshet.sql.source import Statement
from freshet.state.arena import Arena, Scope
from freshet.state.strings import StringPool

LARGE = 16_384  # rows from which a query is handed to DuckDB: below this, the overhead is larger than the gain
_MANY = 65_536  # an answer of up to this many rows is stored for a query, whatever the size of the tables below it
_TIMES = 4  # and so is one of up to this many times the rows of those tables


class _LargeError(Exception):
    """A view's answer is too large to be stored for a query."""

    def __init__(self, view: str) -> None:
        self.view = view


@dataclass(frozen=True, slots=True)
class _World:
    """What a query reads: the state itself, or a copy of it."""

    tables: Mapping[str, Table]
    view: Callable[[str], Maintained]
    pool: StringPool


@dataclass(frozen=True, slots=True)
class _Collected:
    """A query for DuckDB, with the rows that it reads."""

    for_duckdb: DuckDBQuery
    tables: dict[str, pa.Table]
    schema: pa.Schema


class OneOffQueries:
    def __init__(self, access: Access) -> None:
        self._access, self._state = access, access.state
        self._prepared, self._bound = Prepared(access), BoundQueries(access.state)
        self._connected: DuckDB | None = None

    def ask(self, statement: Statement) -> pa.Table:
        """The answer to a statement that changes nothing; it is bound to the definitions at that moment."""
        formed, inlined = form_of(statement), set[str]()
        known = None if formed is None else self._prepared.answer(*formed)
        if known is not None:
            return known
        while True:
            try:
                answer = self._read(lambda *how: self._asked(statement, inlined, *how))
                break
            except _LargeError as e:
                inlined.add(e.view)
        if formed is not None:
            with self._state.lock:
                self._prepared.learn(*formed)
        return answer

    def answer(self, query: AnyQuery) -> pa.Table:
        """The answer to a query that is part of a change."""
        return self._read(lambda *how: self._reading(BoundQuery(query), *how))

    def _read(self, begin: Callable[[bool, bool], Reading[pa.Table | _Collected]]) -> pa.Table:
        """The answer, also if the rows cannot be grouped in a scan, or DuckDB gives none."""
        alone, fit = metered() or self._state.memory.limit is not None or not installed(), True
        try:
            outcome = read(self._state, lambda: begin(alone, True))
        except UnfitError:
            fit = False
            outcome = read(self._state, lambda: begin(alone, False))
        if isinstance(outcome, _Collected):
            answer = self._duckdb().answer(outcome.for_duckdb.sql, outcome.tables, outcome.schema)
            if answer is not None:
                return answer
            outcome = read(self._state, lambda: begin(True, fit))
        assert isinstance(outcome, pa.Table)
        return outcome

    def _asked(self, statement: Statement, inlined: set[str], alone: bool, fit: bool) -> Reading[pa.Table | _Collected]:
        self._access.check_open()
        return self._reading(self._bound.bound(statement, inlined), alone, fit)

    def _reading(self, bound: BoundQuery, alone: bool, fit: bool) -> Reading[pa.Table | _Collected]:
        """How a query is answered; `alone`: not by DuckDB; `fit`: rows may be grouped in a scan. Called under the
        state's lock."""
        query, stored, state = bound.query, bound.stored, self._state
        rows = self._rows_below(query, stored)
        grouped = bound.grouped if fit and bound.scan is None and are_few(rows) else None
        scan = bound.scan if grouped is None else grouped.read
        for_duckdb = None if alone or scan is not None or rows < LARGE else bound.for_duckdb
        plan = None if scan is not None or for_duckdb is not None else build_plan(query, _counts(state, stored))
        if for_duckdb is not None:
            named = set(for_duckdb.tables)
        else:
            named = {scan.source.name.lower()} if scan is not None else tables_of(_root(plan))
        views = {name: self._access.views.named[name] for name in sorted(named & stored)}
        below = {name: tables_of(view.plan.root) for name, view in views.items()}
        tables = sorted((named - stored).union(*below.values()))
        fields = query.fields

        def answer(world: _World) -> pa.Table | _Collected:
            with _answering(state.memory):
                if for_duckdb is not None:
                    tables = {
                        for_duckdb.name(name): _collected(for_duckdb, name, world, below) for name in for_duckdb.tables
                    }
                    return _Collected(for_duckdb, tables, as_schema(fields))
                if scan is not None:
                    found = _scanned(scan, world, stored)
                    return _table(fields, found if grouped is None else grouped.answer(found))
                with _made(state.memory, _root(plan), world, below) as kept:
                    return _table(fields, kept.batches(BATCH))

        operators = {name: view.operator for name, view in views.items()}
        roots = {name: view.plan.root for name, view in views.items()}
        here = _World(state.core.tables, operators.__getitem__, state.core.pool)

        def there(state_copy: StateCopy) -> pa.Table | _Collected:
            kept = {name: state_copy.view(operators[name].scope.prefix, roots[name]) for name in views}
            return answer(_World(state_copy.core.tables, kept.__getitem__, state_copy.core.pool))

        return Reading(tables, [o.scope.prefix for o in operators.values()], lambda: answer(here), there)

    def _rows_below(self, query: AnyQuery, stored: frozenset[str]) -> int:
        """How many rows it reads; an answer is assumed to have as many as the tables below its view."""
        rows, tables = 0, self._state.core.tables
        for name in _named(query):
            below = tables_of(self._access.views.named[name].plan.root) if name in stored else {name}
            rows += sum(tables[table].tuples.live for table in below)
        return rows

    def _duckdb(self) -> DuckDB:
        if self._connected is None:
            self._connected = DuckDB()
        return self._connected


def _named(query: AnyQuery | TableSchema) -> set[str]:
    """The tables, and views read as such, that a query names."""
    if isinstance(query, TableSchema):
        return set() if isinstance(query, RecursiveRows) else {query.name.lower()}
    return set[str]().union(*(_named(source) for source in children(query)))


def _collected(for_duckdb: DuckDBQuery, name: str, world: _World, below: Mapping[str, set[str]]) -> pa.Table:
    """The columns of a table or of a view's answer that DuckDB reads."""
    source = for_duckdb.tables[name]
    places = for_duckdb.columns[name]
    outputs = tuple(key(0, i, source.fields[i]) for i in places)
    fields = tuple(Field(f"c{i}", source.fields[i].type) for i in places)
    scan = Scan(source, (), outputs, fields, (), 0, None)
    if name not in below:
        return _table(fields, scan.of_table(world.tables[name]))
    most = _TIMES * sum(world.tables[n].tuples.live for n in below[name]) + _MANY
    return _table(fields, _at_most(most, name, scan.of_view(world.view(name), world.pool)))


def _at_most(most: int, view: str, parts: Iterator[list[Column]]) -> Iterator[list[Column]]:
    rows = 0
    for columns in parts:
        rows += len(columns[0])
        if rows > most:
            raise _LargeError(view)
        yield columns


def _root(plan: AnyPlan | None) -> AnyPlan:
    assert plan is not None
    return plan


def _counts(state: State, stored: frozenset[str]) -> dict[str, float]:
    """Row counts of tables and answers, which the planner uses as the numbers of their changes."""
    counts = state.row_counts()
    return counts | dict.fromkeys(stored, max(counts.values(), default=1.0)) if counts else counts


@contextmanager
def _answering(memory: Memory) -> Iterator[None]:
    with memory.temporary():
        try:
            yield
        except EvaluationError as e:
            remedy = "correct the rows, or guard the expression"
            raise ChangeError(f"the query has no answer: {e.reason}; {remedy}") from e
        except SystemError as e:  # how numba reports an exception that a signal handler has raised
            raise (e.__cause__ or e) from None


def _table(fields: tuple[Field, ...], parts: Iterator[list[Column]]) -> pa.Table:
    schema, batches = as_schema(fields), list[pa.RecordBatch]()
    for columns in parts:
        for batch in to_batches(columns, schema):
            given(batch.num_rows)
            hold(batch.nbytes)
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def _scanned(scan: Scan, world: _World, stored: frozenset[str]) -> Iterator[list[Column]]:
    name = scan.source.name.lower()
    if name in stored:
        return scan.of_view(world.view(name), world.pool)
    return scan.of_table(world.tables[name])


@contextmanager
def _made(memory: Memory, plan: AnyPlan, world: _World, below: Mapping[str, set[str]]) -> Iterator[Maintained]:
    """A view that is discarded after it was read."""
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
    """A view's answer as a table, unless it has more than `most` rows."""
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
