"""Integers as bits: & | ^ ~, shifts, and how many are set. Two's complement of the type's own width, as in Java."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.coercion import common_type
from freshet.scalar.functions.registry import BOTH, THIS, Function, Step, Strict, declare, refuse
from freshet.scalar.functions.rows import both, first_bad, longest
from freshet.scalar.types import BIGINT, BOOLEAN, INT, TINYINT
from freshet.state.arrays import Int64s

_WIDTHS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def _integers(name: str, args: tuple[Expression, ...], count: int) -> tuple[Expression, ...]:
    if len(args) != count or not all(a.type.is_integer or a.type.name == "VOID" for a in args):
        raise refuse(name, args)
    return args


def _resolve_pair(name: str, args: tuple[Expression, ...]) -> Expression:
    common = common_type([a.type for a in _integers(name, args, 2)])
    if common is None or not common.is_integer:
        raise refuse(name, args)
    return Call(common, name, tuple(cast(a, common) for a in args))


def _resolve_not(name: str, args: tuple[Expression, ...]) -> Expression:
    (a,) = _integers(name, args, 1)
    a = cast(a, INT) if a.type.name == "VOID" else a
    return Call(a.type, name, (a,))


def _resolve_shift(name: str, args: tuple[Expression, ...]) -> Expression:
    a, by = _integers(name, args, 2)
    type = BIGINT if a.type.name == "BIGINT" else INT
    return Call(type, name, (cast(a, type), cast(by, INT)))


def _resolve_get(name: str, args: tuple[Expression, ...]) -> Expression:
    a, at = _integers(name, args, 2)
    a = cast(a, BIGINT) if a.type.name == "VOID" else a
    return Call(TINYINT, "getbit", (a, cast(at, INT)))


def _resolve_count(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or not (args[0].type.is_integer or args[0].type == BOOLEAN or args[0].type.name == "VOID"):
        raise refuse(name, args)
    return Call(INT, name, (cast(args[0], BIGINT),))


# Computing ------------------------------------------------------------------------------------------------------


def _pair(operation: Callable[[Any, Any], Any]) -> Strict:
    return lambda call: lambda a, b: Column(call.type, operation(a.data, b.data), both(a.valid, b.valid))


def _not(call: Call) -> Step:
    return lambda a: Column(call.type, ~a.data, a.valid)


def _shift(call: Call) -> Step:
    """Shifts by the low bits of the second argument; bits shifted out of an INT are lost, and its 32nd bit is the
    sign."""
    left, narrow = call.name == "shiftleft", call.type.name == "INT"
    unsigned = call.name == "shiftrightunsigned"

    def step(a: Column, b: Column) -> Column:
        by = b.data & (31 if narrow else 63)
        if unsigned:
            bits = a.data & 0xFFFF_FFFF if narrow else a.data
            data: Int64s = (bits.view(np.uint64) >> by.view(np.uint64)).view(np.int64)
        else:
            data = a.data << by if left else a.data >> by
        return Column(call.type, data.astype(np.int32).astype(np.int64) if narrow else data, both(a.valid, b.valid))

    return step


def _get(call: Call) -> Step:
    width = _WIDTHS[call.args[0].type.name]

    def step(a: Column, at: Column) -> Column:
        valid = both(a.valid, at.valid)
        bad = first_bad(np.broadcast_to((at.data < 0) | (at.data >= width), longest(a, at)), valid)
        if bad >= 0:
            shown = int(at.data[0 if len(at) == 1 else bad])
            raise EvaluationError(f"{call.args[0].type} has no bit {shown}; it has bits 0 to {width - 1}", bad)
        return Column(TINYINT, (a.data >> (at.data & 63)) & 1, valid)

    return step


def _count(call: Call) -> Step:
    def step(a: Column) -> Column:
        bits = np.unpackbits(np.ascontiguousarray(a.data).view(np.uint8).reshape(-1, 8), axis=1)
        return Column(INT, bits.sum(axis=1, dtype=np.int64), a.valid)

    return step


declare(
    Function("bit_not", "an integer", _resolve_not, _not, spelled=False, parsed={exp.BitwiseNot: THIS}, total=True),
    Function(
        "shiftleft",
        "an INT or BIGINT, and by how many bits",
        _resolve_shift,
        _shift,
        parsed={exp.BitwiseLeftShift: BOTH},
        total=True,
    ),
    Function(
        "shiftright",
        "an INT or BIGINT, and by how many bits",
        _resolve_shift,
        _shift,
        parsed={exp.BitwiseRightShift: BOTH},
        total=True,
    ),
    Function("shiftrightunsigned", "an INT or BIGINT, and by how many bits", _resolve_shift, _shift, total=True),
    Function("getbit", "an integer and the place of a bit, 0 being the last", _resolve_get, _get, also=("bit_get",)),
    Function("bit_count", "an integer or BOOLEAN", _resolve_count, _count, total=True),
    *(
        Function(name, "two integers", _resolve_pair, _pair(operation), spelled=False, operator=node, total=True)
        for name, operation, node in (
            ("bit_and", np.bitwise_and, exp.BitwiseAnd),
            ("bit_or", np.bitwise_or, exp.BitwiseOr),
            ("bit_xor", np.bitwise_xor, exp.BitwiseXor),
        )
    ),
)
