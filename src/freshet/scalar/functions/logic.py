"""AND, OR, NOT and IS [NOT] NULL in three-valued logic.

AND and OR take any number of conditions, from left to right. Each is computed only for the rows that those before it
have not decided, so that a guard on the left keeps a failing division on the right from running. One that cannot fail
runs on all rows, which is faster.
"""

from __future__ import annotations

import numpy as np
from sqlglot import exp

from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.compiled import is_total
from freshet.scalar.functions.nulls import NEVER, UNLESS_DECIDED
from freshet.scalar.functions.registry import FUNCTIONS, Columns, Function, Node, Step, declare, refuse
from freshet.scalar.functions.rows import on_rows, spread, truth
from freshet.scalar.types import BOOLEAN
from freshet.state.arrays import Bools, Int64s


def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) < 2:
        raise refuse(name, args)
    return Call(BOOLEAN, name, tuple(_condition(name, a, args) for a in args))


def _resolve_not(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1:
        raise refuse(name, args)
    return Call(BOOLEAN, name, (_condition(name, args[0], args),))


def _condition(name: str, argument: Expression, args: tuple[Expression, ...]) -> Expression:
    if argument.type.name not in ("BOOLEAN", "VOID", "STRING"):
        raise refuse(name, args)
    return cast(argument, BOOLEAN)


def _resolve_null(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1:
        raise refuse(name, args)
    return Call(BOOLEAN, FUNCTIONS[name].name, args)


def _compute(call: Call, nodes: tuple[Node, ...]) -> Node:
    decides = call.name == "or"  # the truth value that determines the result by itself
    others = [(node, is_total(arg)) for node, arg in zip(nodes[1:], call.args[1:], strict=True)]

    def node(columns: Columns, rows: int) -> Column:
        result = nodes[0](columns, rows)
        for right, eager in others:
            x = truth(result)
            if not eager:
                decided = x == decides if result.valid is None else (x == decides) & result.valid
                open_rows = np.flatnonzero(~np.broadcast_to(decided, rows))
                if not len(open_rows):
                    return Column(BOOLEAN, np.full(rows, decides))
                if len(open_rows) < rows:
                    result = _patched(result, on_rows(right, columns, open_rows, rows), open_rows, rows)
                    continue
            result = _joined(result, x, right(columns, rows))
        return result

    def _patched(a: Column, b: Column, open_rows: Int64s, rows: int) -> Column:
        """The left side's results, with those of the open rows filled in from both sides."""
        part = _joined(spread(a, rows).take(open_rows), truth(spread(a, rows))[open_rows], b)
        data = np.full(rows, decides)
        data[open_rows] = part.data
        if part.valid is None:
            return Column(BOOLEAN, data)
        valid = np.ones(rows, np.bool_)
        valid[open_rows] = part.valid
        return Column(BOOLEAN, data, valid)

    def _joined(a: Column, x: Bools, b: Column) -> Column:
        y = truth(b)
        data = x | y if decides else x & y
        if a.valid is None and b.valid is None:
            return Column(BOOLEAN, data)
        known_a = np.True_ if a.valid is None else a.valid
        known_b = np.True_ if b.valid is None else b.valid
        sure_a, sure_b = known_a & (x == decides), known_b & (y == decides)
        valid = (known_a & known_b) | sure_a | sure_b
        if decides:
            data = sure_a | sure_b
        return Column(BOOLEAN, data, valid)

    return node


def _not(call: Call) -> Step:
    return lambda a: Column(BOOLEAN, ~truth(a), a.valid)


def _is_null(call: Call) -> Step:
    wants_null = call.name == "is_null"

    def step(a: Column) -> Column:
        if a.valid is None:
            return Column(BOOLEAN, np.full(len(a), not wants_null))
        return Column(BOOLEAN, ~a.valid if wants_null else a.valid)

    return step


declare(
    *(
        Function(
            name,
            "two or more BOOLEAN conditions",
            _resolve,
            spelled=False,
            operator=node,
            sign=name.upper(),
            lazy=_compute,
            nulls=UNLESS_DECIDED,
            total=True,
            guards=True,
            duckdb=lambda call, args: f"({f' {call.name.upper()} '.join(args)})",
        )
        for name, node in (("and", exp.And), ("or", exp.Or))
    ),
    Function(
        "not",
        "a BOOLEAN condition",
        _resolve_not,
        _not,
        spelled=False,
        total=True,
        duckdb=lambda call, args: f"(NOT {args[0]})",
    ),
    Function(
        "is_null",
        "one value",
        _resolve_null,
        _is_null,
        also=("isnull",),
        nulls=NEVER,
        nested=True,
        variants=True,
        total=True,
        opposite="is_not_null",
        duckdb=lambda call, args: f"({args[0]} IS NULL)",
    ),
    Function(
        "is_not_null",
        "one value",
        _resolve_null,
        _is_null,
        also=("isnotnull",),
        nulls=NEVER,
        nested=True,
        variants=True,
        total=True,
        opposite="is_null",
        duckdb=lambda call, args: f"({args[0]} IS NOT NULL)",
    ),
)
