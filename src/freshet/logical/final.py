"""EMIT FINAL: the rows of a query from the moment on at which no later change can alter them.

Law: once the watermark of its table is W, no row with a time before W comes or goes. So the rows that change in a query
have a value of at least g(W) in a column that is g(time), where g never decreases, and a row with a value before g(W)
is final. A window of time ends after each time in it, so it is final once W has reached its end. Where several
relations are read, the column must be one of each of them, by equalities; the watermark is the least of all their
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from freshet.errors import UnsupportedError
from freshet.logical.apply import has_apply, own_expressions, sources
from freshet.logical.query import (
    AnyQuery,
    Block,
    Field,
    Flattened,
    Query,
    Relation,
    SetOperation,
    Sorted,
    TableSchema,
    Timed,
    TopK,
    UnionAll,
    Values,
    Windowed,
    group_key,
    key,
    watermark_of,
)
from freshet.logical.rewrite.blocks import conjuncts, predicates_in, select_all
from freshet.scalar import functions
from freshet.scalar.clock import Moment, Now, Step, reads_now, steps_of
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Call, ColumnRef, Expression, GroupRef, Literal
from freshet.scalar.functions.registry import comparison_of
from freshet.scalar.types import DATE, STRING, TIMESTAMP

_VALUE, _END, _WINDOWS = "value", "end", "windows"


@dataclass(frozen=True, slots=True)
class _Settling:
    """What says of a value that rows with it are final: the value itself, its field `end`, or those of its elements, is
    before g(W), or at g(W) unless `strict`."""

    part: str
    strict: bool
    steps: tuple[Step, ...]


#: None: rows with the value may always change. Without any: they never do.
_Settled = frozenset[_Settling] | None


def emit_final(query: AnyQuery) -> AnyQuery:
    """The query with its final rows only. UnsupportedError, without a position, if none of its rows ever is."""
    if isinstance(query, Sorted):
        return replace(query, source=emit_final(query.source))
    tables = {schema.name.lower(): schema for schema in _tables(query)}
    _check(query, list(tables.values()))
    for value, settled in _candidates(query):
        if settled:
            return _timed(query, value, settled, list(tables.values()))
    names = ", ".join(f"{t.name}.{t.fields[t.lateness.column].name}" for t in tables.values() if t.lateness is not None)
    remedy = f"group by {names}, or by WINDOW, DATE_TRUNC or a date of it, and join tables where these are equal"
    raise UnsupportedError(f"EMIT FINAL of rows that may always change is not supported; {remedy}")


def _check(query: AnyQuery, tables: list[TableSchema]) -> None:
    if not tables:
        raise UnsupportedError("EMIT FINAL of a query without tables is not supported; leave it out")
    for table in tables:
        if table.retention is not None:
            what = f"EMIT FINAL over table {table.name}, whose rows expire,"
            raise UnsupportedError(f"{what} is not supported; create the table without retain")
        if table.lateness is None:
            remedy = (
                f"declare how late its rows may come: CREATE TABLE {table.name} (...) WITH (lateness = '10 minutes')"
            )
            raise UnsupportedError(f"EMIT FINAL over table {table.name} without lateness is not supported; {remedy}")
    for part in _parts(query):
        for e in own_expressions(part):
            if reads_now(e):
                raise UnsupportedError("EMIT FINAL with NOW() is not supported; leave one of them out")
            if has_apply(e):
                remedy = "join the tables, on equal times"
                raise UnsupportedError(
                    f"EMIT FINAL of a query with subqueries in expressions is not supported; {remedy}"
                )


def _parts(query: AnyQuery) -> Iterator[AnyQuery]:
    yield query
    for source in sources(query):
        yield from _parts(source)


def _tables(query: AnyQuery) -> Iterator[TableSchema]:
    for part in _parts(query):
        if isinstance(part, Query):
            read = (part.relations[number].source for number in part.block.within())
            yield from (source for source in read if isinstance(source, TableSchema))


def _candidates(query: AnyQuery) -> Iterator[tuple[Expression, _Settled]]:
    """The values that each row has, whether it shows them or not."""
    if not isinstance(query, Query) or query.distinct:
        for i, field in enumerate(query.fields):
            yield key(0, i, field), _of(query, i)
    elif query.grouping is not None:
        for i, each in enumerate(query.grouping.keys):
            yield group_key(i, Field("key", each.type, functions.nullable(each))), _joined(query, each)
    else:
        for number in query.block.relations:
            for i, field in enumerate(query.relations[number].fields):
                column = key(number, i, field)
                yield column, _joined(query, column)
        compared = _sides([*predicates_in(query.block), *query.where])
        for value in (*query.outputs, *(side for pair in compared for side in pair)):
            yield value, _joined(query, value)


def _timed(query: AnyQuery, value: Expression, settled: frozenset[_Settling], tables: list[TableSchema]) -> AnyQuery:
    """The rows from the moment on at which they are final."""
    below = query if isinstance(query, Query) and not query.distinct else select_all(query)
    ends = {s.part == _END for s in settled}
    assert len(ends) == 1
    if ends == {True}:
        value = functions.build("field", (value, Literal(STRING, "end")))
    outputs = below.outputs if value in below.outputs else (*below.outputs, value)
    fields = (*below.fields, Field("final", value.type, functions.nullable(value)))[: len(outputs)]
    at = outputs.index(value)
    order = sorted(settled, key=repr)
    since = tuple(Moment(at, s.strict, s.steps) for s in order)
    names = tuple(t.name for t in tables)
    return Timed(
        replace(below, outputs=outputs, fields=fields), _watermark(tables), since, (), (), query.fields, final=names
    )


def _watermark(tables: list[TableSchema]) -> Query:
    """The query for the least watermark; without rows until all tables have one."""
    marks = [watermark_of(table) for table in tables]
    relations = tuple(Relation(mark.name, mark, mark.fields) for mark in marks)
    times = tuple(key(i, 0, mark.fields[0]) for i, mark in enumerate(marks))
    least = times[0] if len(times) == 1 else functions.build("least", times)
    block = Block(tuple(range(len(marks))), ())
    return Query(relations, block, (), None, (least,), marks[0].fields)


# What settles rows --------------------------------------------------------------------------------------------------


def _of(query: AnyQuery, column: int) -> _Settled:
    """By what a column settles the rows of a query."""
    match query:
        case Query(grouping=None):
            return _joined(query, query.outputs[column])
        case Query(grouping=grouping) if grouping is not None:
            return _through(query.outputs[column], lambda e: _by_key(query, e))
        case Flattened():
            others = len(query.source.fields) - 1
            if column < others:
                return _of(query.source, column if column < query.list else column + 1)
            is_window = not query.inline and column == len(query.fields) - 1
            listed = _of(query.source, query.list) if is_window else None
            return None if listed is None else frozenset(replace(s, part=_END) for s in listed if s.part == _WINDOWS)
        case UnionAll() | SetOperation():
            return _together([_of(source, column) for source in query.sources().values()])
        case TopK() | Windowed() if column in query.partition:
            return _of(query.source, column)
        case Sorted():
            return _of(query.source, column)
        case Values():
            return frozenset()
    return None


def _together(found: list[_Settled]) -> _Settled:
    """By what a value settles rows of several inputs."""
    known = [each for each in found if each is not None]
    made = frozenset[_Settling]().union(*known)
    return made if len(known) == len(found) and len({s.part for s in made}) <= 1 else None


def _by_key(query: Query, e: Expression) -> _Settled:
    assert query.grouping is not None and isinstance(e, (GroupRef, ColumnRef))
    keys = query.grouping.keys
    return _joined(query, keys[e.column]) if isinstance(e, GroupRef) and e.column < len(keys) else None


def _joined(query: Query, value: Expression) -> _Settled:
    """By what a value settles the joined rows: for each relation, by it or by what equals it in the rows that a change
    of the relation reaches."""
    found = []
    for number in query.block.within():
        equal = _equal(_sides([*_around(query.block, number), *query.where]), value)
        settled = (_through(e, lambda column, own=number: _column(query, column, own)) for e in equal)  # type: ignore[misc]
        found.append(next((s for s in settled if s is not None), None))
    return _together(found)


def _around(block: Block, number: int) -> list[Expression]:
    """The conditions on the rows that a relation contributes to: those of its block, and of the blocks around it."""
    if number in block.relations:
        return list(block.predicates)
    inside = next(arm.block for arm in block.arms if number in arm.block.within())
    return [*block.predicates, *_around(inside, number)]


def _sides(conditions: list[Expression]) -> list[tuple[Expression, ...]]:
    """The two sides of each equality."""
    calls = [c for written in conditions for c in conjuncts(written) if isinstance(c, Call)]
    return [c.args for c in calls if comparison_of(c) is ComparisonOperator.EQUAL]


def _equal(pairs: list[tuple[Expression, ...]], value: Expression) -> list[Expression]:
    """The expressions that equal a value where the sides of all pairs are equal."""
    found, waiting = [value], [value]
    while waiting:
        e = waiting.pop()
        for left, right in pairs:
            for one, other in ((left, right), (right, left)):
                if one == e and other not in found:
                    found.append(other)
                    waiting.append(other)
    return found


def _column(query: Query, column: Expression, own: int) -> _Settled:
    """By what a column settles the rows of one relation."""
    if not isinstance(column, ColumnRef) or column.relation != own:
        return None
    source = query.relations[own].source
    if not isinstance(source, TableSchema):
        return _of(source, column.column)
    is_time = source.lateness is not None and source.lateness.column == column.column
    return frozenset([_Settling(_VALUE, True, ())]) if is_time else None


def _through(e: Expression, leaf: Callable[[Expression], _Settled]) -> _Settled:
    """By what an expression settles rows; `leaf` says so of the columns and keys in it."""
    if isinstance(e, (ColumnRef, GroupRef)):
        return leaf(e)
    if not isinstance(e, Call):
        return None
    read = [arg for arg in e.args if not isinstance(arg, Literal)]
    inner = _through(read[0], leaf) if len(read) == 1 else None
    if inner is None:
        return None
    parts = {s.part for s in inner}
    if e.name == "field":
        is_end = parts == {_END} and e.args[1] == Literal(STRING, "end")
        return frozenset(replace(s, part=_VALUE) for s in inner) if is_end else None
    if parts != {_VALUE}:
        return None
    if e.name == "time_windows":
        return frozenset(_Settling(_WINDOWS, False, s.steps) for s in inner)
    if e.type not in (DATE, TIMESTAMP) or read[0].type not in (DATE, TIMESTAMP):
        return None
    steps = steps_of(replace(e, args=tuple(Now() if arg is read[0] else arg for arg in e.args)))
    return None if steps is None else frozenset(_Settling(_VALUE, True, (*s.steps, *steps)) for s in inner)
