"""SHOW, DESCRIBE and EXPLAIN: the tables and views and how they are maintained, returned as tables.

Law: they change nothing and do not take the writer's lock. The objects they name must exist when the text is bound, as
for any other statement.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import pyarrow as pa

from freshet.database.access import Access
from freshet.database.explaining import explained
from freshet.database.one_off import OneOffQueries
from freshet.interrupts import Deferred, deliver
from freshet.logical.query import TableSchema, is_query
from freshet.plans import build_plan
from freshet.plans import explain as describe_plan
from freshet.sql.definitions import Definitions
from freshet.sql.parse import asks_only, bind_all
from freshet.sql.source import SqlText, Statement, closest_first

_WORDS = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN")
_VIEW = (["VIEW"], ["MATERIALIZED", "VIEW"])


class Subject(Enum):
    TABLES = auto()
    VIEWS = auto()
    COLUMNS = auto()
    PLAN = auto()  # how a query would be maintained
    COST = auto()  # and what it costs


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is asked: a list of all objects, a description of a named object, or a query."""

    subject: Subject
    name: str = ""
    query: Statement | None = None


def inspects(statement: Statement) -> bool:
    return statement.tokens[0].text.upper() in _WORDS


def changes_nothing(statements: list[Statement]) -> bool:
    return all(inspects(each) or asks_only([each]) for each in statements)


def read_inspection(statement: Statement, catalog: Definitions) -> Inspection:
    """The statement, checked against the catalog."""
    first, *rest = statement.tokens
    words = [token.text.upper() for token in rest]
    if first.text.upper() == "SHOW":
        if words == ["TABLES"]:
            return Inspection(Subject.TABLES)
        if words in (["VIEWS"], ["MATERIALIZED", "VIEWS"]):
            return Inspection(Subject.VIEWS)
        statement.fail("SHOW lists TABLES or VIEWS; write one of them", None)
    if first.text.upper() != "EXPLAIN":
        if words[:-1] in (["TABLE"], *_VIEW):
            rest = rest[-1:]
        if len(rest) != 1:
            statement.fail(f"{first.text} takes the name of a table or view; write it", None)
        name = rest[0].text
        if catalog.table(name) is None and catalog.view(name) is None:
            statement.fail(f"no table or view {name}; there are {_listed(name, catalog.names())}", name)
        return Inspection(Subject.COLUMNS, name)
    subject = Subject.COST if words[:1] == ["ANALYZE"] else Subject.PLAN
    rest = rest[1:] if subject is Subject.COST else rest
    if [token.text.upper() for token in rest[:-1]] in _VIEW:
        rest = rest[-1:]
    if not rest:
        statement.fail("EXPLAIN takes a view's name or a query; write it", None)
    if len(rest) == 1:
        name = rest[0].text
        if catalog.view(name) is None:
            statement.fail(f"no view {name}; there are {_listed(name, catalog.views)}", name)
        return Inspection(subject, name)
    query = Statement(statement.source, rest)
    if not asks_only([query]):
        query.fail("EXPLAIN takes a view's name or a query; write SELECT after it", None)
    query.once = subject is Subject.COST
    bind_all([query], catalog)
    return Inspection(subject, query=query)


def _listed(wanted: str, names: Iterable[str]) -> str:
    return closest_first(wanted, names) or "none yet"


class Inspecting:
    def __init__(self, access: Access, one_off: OneOffQueries) -> None:
        self._access = access
        self._state = access.state
        self._one_off = one_off

    def answer(self, statement: Statement) -> pa.Table:
        with self._state.lock:
            self._access.check_open()
            asked = read_inspection(statement, self._state.catalog)
        match asked.subject:
            case Subject.TABLES:
                return self._tables()
            case Subject.VIEWS:
                return self._views()
            case Subject.COLUMNS:
                return self._columns(asked.name)
        lines = self._explained(asked).splitlines()
        return pa.table({"plan": pa.array(lines, pa.string())})

    def _tables(self) -> pa.Table:
        with self._state.lock:
            rows = [(schema.name, self._rows(schema)) for schema in self._state.catalog.tables.values()]
        return _table({"name": pa.string(), "rows": pa.int64()}, rows)

    def _rows(self, schema: TableSchema) -> int:
        table = self._state.core.tables[schema.name.lower()]
        if not table.counted:  # each row occurs once
            return int(table.tuples.live)
        name = schema.name.replace("`", "``")
        (counting,) = SqlText(f"SELECT COUNT(*) AS n FROM `{name}`").statements()
        return int(self._one_off.ask(counting).column("n")[0].as_py())

    def _views(self) -> pa.Table:
        try:
            with self._state.lock, Deferred():
                views = list(self._access.views.named.values())
                rows = [(view.name, view.operator.count(), view.plan.sql.strip()) for view in views]
        finally:
            deliver()
        return _table({"name": pa.string(), "rows": pa.int64(), "query": pa.string()}, rows)

    def _columns(self, name: str) -> pa.Table:
        with self._state.lock:
            table, view = self._state.catalog.table(name), self._state.catalog.view(name)
        known = table or view
        assert known is not None
        key = table.primary_key if table is not None else ()
        rows = [(f.name, str(f.type), f.nullable, i in key) for i, f in enumerate(known.fields)]
        forms = {"name": pa.string(), "type": pa.string(), "nullable": pa.bool_(), "key": pa.bool_()}
        return _table(forms, rows)

    def _explained(self, asked: Inspection) -> str:
        if asked.query is None:
            with self._state.lock:
                view = self._access.views.named[asked.name.lower()]
                if asked.subject is Subject.COST:
                    return explained(view, self._access.views.clock)[0]
                return describe_plan(view.plan.root)
        with self._state.lock:
            (query,) = bind_all([asked.query], self._state.catalog)
            assert is_query(query)
            plan = describe_plan(build_plan(query, self._state.row_counts()))
        if asked.subject is Subject.PLAN:
            return plan
        start = time.perf_counter()
        rows = self._one_off.ask(asked.query).num_rows
        spent = 1000 * (time.perf_counter() - start)
        return f"{plan}\nanswered   {rows:,} {'row' if rows == 1 else 'rows'} in {spent:.1f} ms, as a one-off query"


def _table(forms: dict[str, pa.DataType], rows: Sequence[tuple[object, ...]]) -> pa.Table:
    schema = pa.schema(list(forms.items()))
    return pa.Table.from_pylist([dict(zip(forms, row, strict=True)) for row in rows], schema)
