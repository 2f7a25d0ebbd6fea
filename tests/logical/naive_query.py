"""A bound query's answer, straight from its definition: nested loops over rows, no indexes, no shortcuts.

The twin with which rewrites are checked: for every bound form of a text, this must return the meaning of the text.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

from freshet.logical.query import (
    AnyQuery,
    Block,
    BoundedSums,
    Query,
    SetOperation,
    TableSchema,
    TopK,
    UnionAll,
    Values,
)
from freshet.logical.rewrite.blocks import subtree
from freshet.scalar.expression import AggregateCall, Call, ColumnRef, Expression, GroupRef, Literal, SortKey

Row = tuple[Any, ...]
Env = dict[int | None, Row]  # by relation; the group's row as None
Tables = dict[str, list[Row]]


def answer(query: AnyQuery, tables: Tables) -> list[Row]:
    if isinstance(query, UnionAll):
        return [row for each in query.inputs for row in answer(each, tables)]
    if isinstance(query, SetOperation):
        return _combined(query, Counter(answer(query.left, tables)), Counter(answer(query.right, tables)))
    if isinstance(query, Values):
        return [tuple(value(e, {}) for e in row) for row in query.rows]
    if isinstance(query, TopK):
        return _first(query, answer(query.source, tables))
    if isinstance(query, BoundedSums):
        return _bounded(query, answer(query.rows, tables), answer(query.bounds, tables))
    assert isinstance(query, Query)
    return _select(query, tables)


def _bounded(query: BoundedSums[AnyQuery], rows: list[Row], bounds: list[Row]) -> list[Row]:
    holds = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[query.operator]
    frames = []
    for *key, bound in bounds:
        mine = [r[query.keys + 1 :] for r in rows if list(r[: query.keys]) == key and holds(r[query.keys], bound)]
        known = [[v for v in column if v is not None] for column in zip(*mine, strict=True)]
        if mine:
            frames.append((*key, len(mine), *(sum(v) if v else None for v in known)))
    return frames


def _first(query: TopK[AnyQuery], rows: list[Row]) -> list[Row]:
    """Without partitions or ties; sorting is stable, so the least significant column comes first."""
    shown = [SortKey(i, False, True) for i in range(len(query.fields))]
    for key in reversed([*query.order, *shown]):
        values = [row for row in rows if row[key.column] is not None]
        values.sort(key=lambda row, at=key.column: row[at], reverse=key.descending)  # type: ignore[misc]
        nulls = [row for row in rows if row[key.column] is None]
        rows = nulls + values if key.nulls_first else values + nulls
    last = None if query.limit is None else query.offset + query.limit
    return [row[: len(query.fields)] for row in rows[query.offset : last]]


def _combined(query: SetOperation[AnyQuery], left: Counter[Row], right: Counter[Row]) -> list[Row]:
    bag = {"union": left + right, "except": left - right, "intersect": left & right}[query.kind]
    if not query.all:
        bag = Counter(left.keys() - right.keys()) if query.kind == "except" else Counter(bag.keys())
    return list(bag.elements())


def _select(query: Query, tables: Tables) -> list[Row]:
    rows = []
    for relation in query.relations:
        source = relation.source
        rows.append(tables[source.name] if isinstance(source, TableSchema) else answer(source, tables))
    widths = [len(relation.fields) for relation in query.relations]

    def joined(block: Block, env: Env) -> list[Env]:
        passing = []
        for combination in itertools.product(*(rows[r] for r in block.relations)):
            here = env | dict[int | None, Row](zip(block.relations, combination, strict=True))
            if all(value(p, here) is True for p in block.predicates):
                passing += with_arms(block, here)
        return passing

    def with_arms(block: Block, env: Env) -> list[Env]:
        envs = [env]
        for arm in block.arms:
            after: list[Env] = []
            for one in envs:
                matches = joined(arm.block, one)
                if arm.kind == "left":
                    missing: Env = {r: (None,) * widths[r] for r in subtree(arm.block)}
                    after += matches or [{**one, **missing}]
                elif bool(matches) == (arm.kind == "semi"):
                    after.append(one)
            envs = after
        return envs

    envs = [e for e in joined(query.block, {}) if all(value(w, e) is True for w in query.where)]
    if query.grouping is not None:
        envs = _groups(query, envs)
    out = [tuple(value(o, e) for o in query.outputs) for e in envs]
    for row in out:
        for field, cell in zip(query.fields, row, strict=True):
            assert field.nullable or cell is not None, f"{field.name} is NULL but is said not to be"
    return list(dict.fromkeys(out)) if query.distinct else out


def _groups(query: Query, envs: list[Env]) -> list[Env]:
    assert query.grouping is not None
    groups: dict[Row, list[Env]] = {} if query.grouping.keys else {(): []}
    for env in envs:
        groups.setdefault(tuple(value(k, env) for k in query.grouping.keys), []).append(env)
    grouped: list[Env] = []
    for key, members in groups.items():
        row: Env = {None: (*key, *(_aggregate(a, members) for a in query.grouping.aggregates))}
        if query.grouping.having is None or value(query.grouping.having, row) is True:
            grouped.append(row)
    return grouped


def _aggregate(call: AggregateCall, members: list[Env]) -> Any:
    kept = [e for e in members if call.filter is None or value(call.filter, e) is True]
    values = [tuple(value(a, e) for a in call.args) for e in kept]
    values = [v for v in values if None not in v]
    if call.distinct:
        values = list(dict.fromkeys(values))
    if call.function == "count":
        return len(values)
    plain = [v[0] for v in values]
    functions: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "min": min, "max": max}
    return functions[call.function](plain) if plain else None


def value(expression: Expression, env: Env) -> Any:
    if isinstance(expression, ColumnRef):
        return env[expression.relation][expression.column]
    if isinstance(expression, GroupRef):
        return env[None][expression.column]
    if isinstance(expression, Literal):
        return (
            bool(expression.value)
            if expression.type.name == "BOOLEAN" and expression.value is not None
            else expression.value
        )
    assert isinstance(expression, Call)
    args = [value(a, env) for a in expression.args]
    if expression.name in _OPEN:
        return _OPEN[expression.name](args)
    return None if None in args else _STRICT[expression.name](*args)


def _and(args: list[Any]) -> bool | None:
    return False if False in args else None if None in args else True


def _in(args: list[Any]) -> bool | None:
    if args[0] is None:
        return None
    return True if args[0] in args[1:] else None if None in args[1:] else False


_OPEN: dict[str, Callable[[list[Any]], Any]] = {
    "and": _and,
    "or": lambda args: True if True in args else None if None in args else False,
    "is_null": lambda args: args[0] is None,
    "is_not_null": lambda args: args[0] is not None,
    "not_distinct": lambda args: args[0] == args[1],
    "distinct_from": lambda args: args[0] != args[1],
    "coalesce": lambda args: next((a for a in args if a is not None), None),
    "in": _in,
}
_STRICT: dict[str, Callable[..., Any]] = {
    "not": lambda a: not a,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "add": lambda a, b: a + b,
    "cast": lambda a: a,
}
