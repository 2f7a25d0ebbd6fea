"""Queries over many rows that DuckDB answers, if it is installed.

Law: DuckDB receives only queries that it is known to answer as Freshet does. Each function and aggregate declares this
itself (`duckdb`): for arguments of types on which both agree, and on which no row can fail. An error that can occur
only at the end, such as a sum that does not fit its type, occurs in DuckDB, too. A query that DuckDB refuses is
answered or refused by Freshet itself. Rows are passed as Arrow under the state's lock, so the answer is of one version;
DuckDB then works without the lock.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import pyarrow as pa

from freshet.aggregates.function import function_of as aggregate_of
from freshet.budget import given, stopped_by
from freshet.logical.kinds import JoinKind
from freshet.logical.query import (
    AnyQuery,
    Arm,
    Block,
    Field,
    Grouping,
    Query,
    Relation,
    SetOperation,
    Sorted,
    TableSchema,
    TopK,
    UnionAll,
    Values,
)
from freshet.scalar.expression import AggregateCall, Call, ColumnRef, Expression, GroupRef, Literal, SortKey
from freshet.scalar.functions.registry import function_of
from freshet.scalar.types import INTEGERS, Type

_TYPES = {
    **{name: name for name in INTEGERS},
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "STRING": "VARCHAR",
    "BINARY": "BLOB",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
}
_NO_FILES = {"enable_external_access": "false"}


@cache
def installed() -> bool:
    return importlib.util.find_spec("duckdb") is not None


@dataclass(frozen=True, slots=True)
class DuckDBQuery:
    """The SQL of a query for DuckDB, and the columns of each table that it reads, by position: table `t0` has `c3`."""

    sql: str
    tables: dict[str, TableSchema]
    columns: dict[str, tuple[int, ...]]

    def name(self, table: str) -> str:
        return f"t{list(self.tables).index(table)}"


def duckdb_query(query: AnyQuery) -> DuckDBQuery | None:
    """The query for DuckDB, if DuckDB is known to give the same answer."""
    writer = _Writer()
    sql = writer.query(query)
    if sql is None:
        return None
    columns = {name: tuple(sorted(places)) or (0,) for name, places in writer.columns.items()}
    return DuckDBQuery(sql, writer.tables, columns)


class DuckDB:
    """A connection that reads nothing but the given tables."""

    def __init__(self) -> None:
        import duckdb

        self._error = duckdb.Error
        self._connection = duckdb.connect(":memory:", config=dict(_NO_FILES))

    def answer(self, sql: str, tables: dict[str, pa.Table], schema: pa.Schema) -> pa.Table | None:
        """The answer, or None if DuckDB gives none: then Freshet answers, or says why not."""
        cursor = self._connection.cursor()
        try:
            for name, table in tables.items():
                cursor.register(name, table)
            with stopped_by(cursor.interrupt):
                answer = cursor.execute(sql).to_arrow_table()
            given(answer.num_rows)
            return pa.table([c.cast(f.type) for c, f in zip(answer.columns, schema, strict=True)], schema=schema)
        except (self._error, pa.ArrowInvalid):
            return None
        finally:
            cursor.close()


# Writing ----------------------------------------------------------------------------------------------------------

Text = str | None  # None: DuckDB's answer may differ


def kind(type_: Type) -> Text:
    """The DuckDB name of a type, if its values are the same there."""
    if type_.char:
        return None
    return f"DECIMAL({type_.precision},{type_.scale})" if type_.name == "DECIMAL" else _TYPES.get(type_.name)


def literal(value: Literal) -> Text:
    written, held = kind(value.type), value.value
    if value.type.name == "VOID":
        return "NULL"
    if written is None:
        return None
    if held is None:
        text = "NULL"
    elif value.type.name == "DECIMAL":
        assert isinstance(held, int)
        text = f"'{_decimal(held, value.type.scale)}'"
    elif value.type.name == "DATE":
        assert isinstance(held, int)
        text = f"'{dt.date(1970, 1, 1) + dt.timedelta(days=held)}'"
    elif value.type.name == "TIMESTAMP":
        assert isinstance(held, int)
        return f"make_timestamp({held})"
    elif value.type.name == "BOOLEAN":
        text = "true" if held else "false"
    elif isinstance(held, str):
        if "\0" in held:
            return None
        text = "'" + held.replace("'", "''") + "'"
    elif isinstance(held, int):
        text = f"'{held}'"
    else:
        return None
    return f"CAST({text} AS {written})"


def _decimal(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, rest = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if unscaled < 0 else ''}{whole}{'.' if scale else ''}{rest}"


def _all(texts: Iterator[Text] | Sequence[Text]) -> list[str] | None:
    known = list(texts)
    return None if any(t is None for t in known) else [t for t in known if t is not None]


def _groups(fields: Sequence[Field]) -> bool:
    """Whether rows of these fields are equal in DuckDB exactly if they are equal here."""
    return all(kind(f.type) is not None and not f.type.is_fraction for f in fields)


@dataclass(slots=True)
class _Writer:
    tables: dict[str, TableSchema] = field(default_factory=dict)
    columns: dict[str, set[int]] = field(default_factory=dict)

    def query(self, query: AnyQuery) -> Text:
        """A SELECT whose columns are c0, c1 and so on."""
        if isinstance(query, Query):
            return self._select(query)
        if isinstance(query, Sorted):
            return self._ordered(query.source, query.order, len(query.fields), "")
        if isinstance(query, TopK):
            return self._first(query)
        if isinstance(query, UnionAll):
            parts = _all(self.query(q) for q in query.inputs)
            return None if parts is None else " UNION ALL ".join(f"({p})" for p in parts)
        if isinstance(query, SetOperation):
            left, right = self.query(query.left), self.query(query.right)
            if left is None or right is None or not _groups(query.fields):
                return None
            return f"({left}) {query.kind.value.upper()}{' ALL' if query.all else ''} ({right})"
        return self._values(query) if isinstance(query, Values) else None

    def _values(self, query: Values) -> Text:
        rows = []
        for row in query.rows:
            cells = _all(literal(e) if isinstance(e, Literal) else None for e in row)
            if cells is None:
                return None
            rows.append("SELECT " + ", ".join(f"{cell} AS c{i}" for i, cell in enumerate(cells)))
        return " UNION ALL ".join(rows) or None

    def _first(self, query: TopK[AnyQuery]) -> Text:
        """Ties in the order are broken by the columns shown."""
        if query.partition or query.ties:
            return None
        ties = tuple(SortKey(i, False, True) for i in range(len(query.fields)))
        limit = "" if query.limit is None else f" LIMIT {query.limit}"
        return self._ordered(query.source, query.order + ties, len(query.fields), f"{limit} OFFSET {query.offset}")

    def _ordered(self, source: AnyQuery, order: Sequence[SortKey], shown: int, cut: str) -> Text:
        below = self.query(source)
        if below is None or any(kind(f.type) is None for f in source.fields):
            return None
        keys = ", ".join(
            f"c{k.column} {'DESC' if k.descending else 'ASC'} NULLS {'FIRST' if k.nulls_first else 'LAST'}"
            for k in order
        )
        names = ", ".join(f"c{i}" for i in range(shown))
        return f"SELECT {names} FROM ({below}) AS q ORDER BY {keys}{cut}"

    def _select(self, query: Query) -> Text:
        source = self._from(query)
        if source is None:
            return None
        if query.grouping is not None:
            source = self._grouped(query.grouping, query.relations, source)
            if source is None:
                return None
        outputs = _all(self._output(e, query) for e in query.outputs)
        if outputs is None or (query.distinct and not _groups(query.fields)):
            return None
        listed = ", ".join(f"{text} AS c{i}" for i, text in enumerate(outputs))
        return f"SELECT {'DISTINCT ' if query.distinct else ''}{listed} {source}"

    def _output(self, output: Expression, query: Query) -> Text:
        text, written = self._expression(output, query.relations), kind(output.type)
        return None if text is None or written is None else f"CAST({text} AS {written})"

    def _grouped(self, grouping: Grouping, relations: Sequence[Relation], source: str) -> Text:
        keys = _all(self._expression(k, relations) for k in grouping.keys)
        if keys is None or any(k.type.is_fraction for k in grouping.keys) or not (keys or grouping.aggregates):
            return None
        values = _all(self._aggregate(a, relations) for a in grouping.aggregates)
        having = "" if grouping.having is None else self._expression(grouping.having, relations)
        if values is None or having is None:
            return None
        listed = ", ".join(f"{text} AS c{i}" for i, text in enumerate((*keys, *values)))
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"FROM (SELECT {listed} {source}{by}) AS g{f' WHERE {having}' if having else ''}"

    def _aggregate(self, call: AggregateCall, relations: Sequence[Relation]) -> Text:
        args = _all(self._expression(a, relations) for a in call.args)
        if args is None or call.copies is not None or call.term or any(a.type.is_fraction for a in call.args):
            return None
        only = ""
        if call.filter is not None:
            condition = self._expression(call.filter, relations)
            if condition is None:
                return None
            only = f" FILTER (WHERE {condition})"
        return aggregate_of(call).duckdb(call, args, only)

    # FROM and WHERE ---------------------------------------------------------------------------------------------

    def _from(self, query: Query) -> Text:
        source = self._joined(query.block, query)
        conditions = self._conditions((*query.block.predicates, *query.where), query.block.arms, query)
        if source is None or conditions is None:
            return None
        return f"FROM {source}{' WHERE ' if conditions else ''}{' AND '.join(conditions)}"

    def _joined(self, block: Block, query: Query) -> Text:
        relations = _all(self._relation(r, query) for r in block.relations)
        if not relations:
            return None
        source = " CROSS JOIN ".join(relations)
        for arm in block.arms:
            if arm.kind is JoinKind.LEFT:
                below = self._joined(arm.block, query)
                hidden = any(a.kind.filters for a in arm.block.arms)
                on = _all(self._expression(p, query.relations) for p in arm.block.predicates)
                if below is None or on is None or hidden:
                    return None
                alone = len(arm.block.relations) == 1 and not arm.block.arms
                source = f"{source} LEFT JOIN {below if alone else f'({below})'} ON {' AND '.join(on) or 'true'}"
        return source

    def _conditions(self, conditions: Sequence[Expression], arms: Sequence[Arm], query: Query) -> list[str] | None:
        written = _all(self._expression(c, query.relations) for c in conditions)
        exists = _all(self._exists(arm, query) for arm in arms if arm.kind.filters)
        return None if written is None or exists is None else [*written, *exists]

    def _exists(self, arm: Arm, query: Query) -> Text:
        source = self._joined(arm.block, query)
        conditions = self._conditions(arm.block.predicates, arm.block.arms, query)
        if source is None or conditions is None:
            return None
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"{'NOT ' if arm.kind is JoinKind.ANTI else ''}EXISTS (SELECT 1 FROM {source}{where})"

    def _relation(self, number: int, query: Query) -> Text:
        source = query.relations[number].source
        if isinstance(source, TableSchema):
            name = source.name.lower()
            self.tables.setdefault(name, source)
            self.columns.setdefault(name, set())
            return f"t{list(self.tables).index(name)} AS r{number}"
        below = self.query(source)
        return None if below is None else f"({below}) AS r{number}"

    # Expressions -------------------------------------------------------------------------------------------------

    def _expression(self, expression: Expression, relations: Sequence[Relation]) -> Text:
        if isinstance(expression, Literal):
            return literal(expression)
        if kind(expression.type) is None:
            return None
        if isinstance(expression, GroupRef):
            return f"g.c{expression.column}"
        if isinstance(expression, ColumnRef):
            source = relations[expression.relation].source
            if isinstance(source, TableSchema):
                self.columns.setdefault(source.name.lower(), set()).add(expression.column)
            return f"r{expression.relation}.c{expression.column}"
        if not isinstance(expression, Call):
            return None
        write = function_of(expression).duckdb
        args = None if write is None else _all(self._expression(a, relations) for a in expression.args)
        return None if write is None or args is None else write(expression, args)
