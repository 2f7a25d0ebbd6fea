"""CASE, IF, COALESCE, NULLIF, GREATEST and LEAST.

A branch is computed only for the rows that reach it, so a condition guards the branches after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlglot import exp

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.binary import decode_bytes
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.coercion import common_type
from freshet.scalar.functions.comparison import aligned, comparer
from freshet.scalar.functions.nulls import IF_ALL, OF_BRANCHES
from freshet.scalar.functions.registry import BOTH, Columns, Function, Node, Step, declare, refuse, resolve
from freshet.scalar.functions.rows import gather, longest, on_rows, spread, truth
from freshet.scalar.functions.text_calls import signature
from freshet.scalar.types import BOOLEAN, INT, STRING, VOID, Type
from freshet.state.arrays import Int64s

_decoded = signature("d", "s", least=2)


def _resolve_case(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) % 2 == 0:
        args = (*args, Literal(VOID, None))
    if len(args) < 3 or any(a.type.name not in ("BOOLEAN", "VOID") for a in args[:-1:2]):
        raise refuse(name, args)
    values = _same(name, (*args[1::2], args[-1]))
    type, made = values[0].type, list(args)
    made[1::2], made[-1] = values[:-1], values[-1]
    made[:-1:2] = [cast(a, BOOLEAN) for a in args[:-1:2]]
    return Call(type, name, tuple(made))


def _resolve_if(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 3:
        raise refuse(name, args)
    return _resolve_case("case", args)


def _resolve_coalesce(name: str, args: tuple[Expression, ...]) -> Expression:
    if not args:
        raise refuse(name, args)
    values = _same(name, args)
    return values[0] if len(values) == 1 else Call(values[0].type, name, values)


def _resolve_extreme(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) < 2:
        raise refuse(name, args)
    if len({a.type.name == "STRING" for a in args if a.type.name != "VOID"}) == 2:
        raise refuse(name, args)  # text is not read as a number here
    values = _same(name, args)
    if not values[0].type.is_ordered:
        raise refuse(name, args)
    return Call(values[0].type, name, values)


def _resolve_nullif(name: str, args: tuple[Expression, ...]) -> Expression:
    """NULLIF(a, b) is CASE WHEN a = b THEN NULL ELSE a END, and has the type of a."""
    if len(args) != 2:
        raise refuse(name, args)
    return Call(args[0].type, "case", (Call(BOOLEAN, "eq", aligned("eq", args)), Literal(args[0].type, None), args[0]))


def _resolve_ifnull(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2:
        raise refuse(name, args)
    return resolve("coalesce", args)


def _resolve_nvl2(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 3:
        raise refuse(name, args)
    return _resolve_case("case", (resolve("is_not_null", args[:1]), *args[1:]))


def _resolve_decode(name: str, args: tuple[Expression, ...]) -> Expression:
    """Unlike CASE, NULL matches NULL, and the default is a text unless it is given."""
    if len(args) == 2:
        return Call(STRING, name, _decoded(name, args))
    if len(args) < 3:
        raise refuse(name, args)
    paired = 1 + (len(args) - 1) // 2 * 2
    pairs, rest = args[1:paired], args[paired:]
    branches: list[Expression] = []
    for sought, value in zip(pairs[::2], pairs[1::2], strict=True):
        branches += [resolve("not_distinct", (args[0], sought)), value]
    return _resolve_case("case", (*branches, *(rest or (Literal(STRING, None),))))


def _resolve_zero(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1:
        raise refuse(name, args)
    return resolve("coalesce", (args[0], Literal(INT, 0)))


def _resolve_null(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1:
        raise refuse(name, args)
    return resolve("nullif", (args[0], Literal(INT, 0)))


def _resolve_equal_null(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2:
        raise refuse(name, args)
    return resolve("not_distinct", args)


def _same(name: str, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
    type = common_type([a.type for a in args])
    if type is None:
        raise refuse(name, args)
    return tuple(cast(a, type) for a in args)


# Computing ------------------------------------------------------------------------------------------------------


def _case(call: Call, nodes: tuple[Node, ...]) -> Node:
    branches, otherwise, type = list(zip(nodes[:-1:2], nodes[1::2], strict=True)), nodes[-1], call.type

    def node(columns: Columns, rows: int) -> Column:
        left: Int64s = np.arange(rows)
        pieces: list[tuple[Int64s, Column]] = []
        for condition, value in branches:
            if not len(left):
                break
            met = on_rows(condition, columns, left, rows)
            holds = truth(met) if met.valid is None else truth(met) & met.valid
            if len(holds) != len(left):
                holds = np.broadcast_to(holds, len(left))
            chosen = left[holds]
            if len(chosen):
                pieces.append((chosen, on_rows(value, columns, chosen, rows)))
                left = left[~holds]
        if len(left):
            if not pieces and len(left) == rows:
                return _typed(otherwise(columns, rows), type)
            pieces.append((left, on_rows(otherwise, columns, left, rows)))
        return gather(type, pieces, rows)

    return node


def _coalesce(call: Call, nodes: tuple[Node, ...]) -> Node:
    type = call.type

    def node(columns: Columns, rows: int) -> Column:
        left: Int64s = np.arange(rows)
        pieces: list[tuple[Int64s, Column]] = []
        for candidate in nodes:
            if not len(left):
                break
            column = on_rows(candidate, columns, left, rows)
            if column.valid is None:
                if not pieces:
                    return _typed(column, type)
                pieces.append((left, column))
                left = left[:0]
                break
            valid = np.broadcast_to(column.valid, len(left))
            pieces.append((left[valid], spread(column, len(left)).take(valid)))
            left = left[~valid]
        return gather(type, pieces, rows)

    return node


def _typed(column: Column, type: Type) -> Column:
    return column if column.type == type else Column(type, column.data, column.valid, column.hi, column.pool)


def _extreme(call: Call) -> Step:
    """NULLs are skipped; the result is NULL if all arguments are."""
    beats = comparer("gt" if call.name == "greatest" else "lt", call.args[:2])
    type = call.type

    def better(best: Column, other: Column) -> Column:
        wins = beats(other, best)
        if best.valid is not None:
            wins = wins | ~best.valid
        if other.valid is not None:
            wins = wins & other.valid
        rows = longest(best, other)
        wins = np.broadcast_to(wins, rows)
        winners, losers = np.flatnonzero(wins), np.flatnonzero(~wins)
        return gather(
            type, [(winners, spread(other, rows).take(winners)), (losers, spread(best, rows).take(losers))], rows
        )

    def step(*args: Column) -> Column:
        best = args[0]
        for other in args[1:]:
            best = better(best, other)
        return best

    return step


def _resolve_single(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2:
        raise refuse(name, args)
    return Call(args[0].type, name, args)


def _single(call: Call) -> Step:
    """The value of a subquery that must not have more than one row: `single` for each of its keys, `only_row` if it has
    no keys."""

    def step(value: Column, rows: Column) -> Column:
        many = rows.data > 1 if rows.valid is None else (rows.data > 1) & rows.valid
        if many.any():
            most = int(rows.data[many].max())
            raise EvaluationError(f"a scalar subquery has {most} rows; aggregate it, as with MAX, or select by a key")
        return value

    return step


def _resolve_typeof(name: str, args: tuple[Expression, ...]) -> Expression:
    """The name of its type, which is the same for every row."""
    if len(args) != 1:
        raise refuse(name, args)
    kind = args[0].type
    return Literal(STRING, _name_of(kind))


def _name_of(kind: Type) -> str:
    if kind.name == "STRUCT":
        return f"struct<{','.join(f'{name}:{_name_of(t)}' for name, t in kind.fields)}>"
    if kind.is_nested:
        return f"{kind.name.lower()}<{','.join(map(_name_of, kind.parts))}>"
    return "string" if kind.name == "STRING" else "void" if kind.name == "VOID" else str(kind).lower()


def _case_of_duckdb(call: Call, args: Sequence[str]) -> str | None:
    whens = " ".join(f"WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
    return f"CASE {whens} ELSE {args[-1]} END"


declare(
    Function(
        "case",
        "conditions and values in turn, then the value for all other rows",
        _resolve_case,
        spelled=False,
        lazy=_case,
        nulls=OF_BRANCHES,
        nested=True,
        variants=True,
        total=True,
        duckdb=_case_of_duckdb,
    ),
    Function(
        "if",
        "a condition and two values of one type",
        _resolve_if,
        parsed={exp.If: None},
        nested=True,
        variants=True,
        guards=True,
    ),
    Function(
        "coalesce",
        "one or more values of one type",
        _resolve_coalesce,
        parsed={exp.Coalesce: ("this", "expressions")},
        lazy=_coalesce,
        nulls=IF_ALL,
        nested=True,
        variants=True,
        total=True,
        guards=True,
        duckdb=lambda call, args: f"COALESCE({', '.join(args)})",
    ),
    Function(
        "greatest",
        "two or more values of one type",
        _resolve_extreme,
        _extreme,
        parsed={exp.Greatest: ("this", "expressions")},
        nulls=IF_ALL,
        nested=True,
        total=True,
    ),
    Function(
        "least",
        "two or more values of one type",
        _resolve_extreme,
        _extreme,
        parsed={exp.Least: ("this", "expressions")},
        nulls=IF_ALL,
        nested=True,
        total=True,
    ),
    Function("nullif", "two comparable values", _resolve_nullif, parsed={exp.Nullif: BOTH}, nested=True),
    Function(
        "ifnull",
        "two values of one type",
        _resolve_ifnull,
        also=("nvl",),
        parsed={exp.Coalesce: None},
        nested=True,
        variants=True,
        guards=True,
    ),
    Function(
        "nvl2",
        "a value, and two of one type: the first where it is not NULL",
        _resolve_nvl2,
        nested=True,
        variants=True,
        guards=True,
    ),
    Function(
        "decode",
        "a value, then pairs of a value to compare it with and a result, and optionally one for others; "
        "or BINARY and a character set",
        _resolve_decode,
        decode_bytes,
        parsed={exp.Decode: ("this", "charset"), exp.DecodeCase: ("expressions",)},
        nested=True,
        guards=True,
    ),
    Function("zeroifnull", "a number", _resolve_zero),
    Function("nullifzero", "a number", _resolve_null),
    Function("equal_null", "two comparable values", _resolve_equal_null, nested=True),
    *(
        Function(
            name,
            "a value and how many rows it was taken from",
            _resolve_single,
            _single,
            spelled=False,
            nested=True,
            variants=True,
        )
        for name in ("single", "only_row")
    ),
    Function("typeof", "any value", _resolve_typeof, nested=True, variants=True),
)
