"""Integers as bits: & | ^ ~, shifts, and how many are set. Two's complement of the type's own width, as in Java."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from freshet.column import Column, Int64s
from freshet.sql.expression import Call, Expression
from freshet.sql.functions.casting import cast
from freshet.sql.functions.coercion import common_type
from freshet.sql.functions.registry import Step, refuse, resolves, strict
from freshet.sql.functions.rows import both
from freshet.types import BIGINT, BOOLEAN, INT

_PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}


def _integers(name: str, args: tuple[Expression, ...], count: int) -> tuple[Expression, ...]:
    if len(args) != count or not all(a.type.is_integer or a.type.name == "VOID" for a in args):
        raise refuse(name, args)
    return args


@resolves(*_PAIRS, takes="two integers")
def _resolve_pair(name: str, args: tuple[Expression, ...]) -> Expression:
    common = common_type([a.type for a in _integers(name, args, 2)])
    if common is None or not common.is_integer:
        raise refuse(name, args)
    return Call(common, name, tuple(cast(a, common) for a in args))


@resolves("bit_not", takes="an integer")
def _resolve_not(name: str, args: tuple[Expression, ...]) -> Expression:
    (a,) = _integers(name, args, 1)
    a = cast(a, INT) if a.type.name == "VOID" else a
    return Call(a.type, name, (a,))


@resolves("shiftleft", "shiftright", takes="an INT or BIGINT, and by how many bits")
def _resolve_shift(name: str, args: tuple[Expression, ...]) -> Expression:
    a, by = _integers(name, args, 2)
    type = BIGINT if a.type.name == "BIGINT" else INT
    return Call(type, name, (cast(a, type), cast(by, INT)))


@resolves("bit_count", takes="an integer or BOOLEAN")
def _resolve_count(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or not (args[0].type.is_integer or args[0].type == BOOLEAN or args[0].type.name == "VOID"):
        raise refuse(name, args)
    return Call(INT, name, (cast(args[0], BIGINT),))


# Computing ------------------------------------------------------------------------------------------------------


@strict(*_PAIRS, total=True)
def _pair(call: Call) -> Step:
    function = _PAIRS[call.name]
    return lambda a, b: Column(call.type, function(a.data, b.data), both(a.valid, b.valid))


@strict("bit_not", total=True)
def _not(call: Call) -> Step:
    return lambda a: Column(call.type, ~a.data, a.valid)


@strict("shiftleft", "shiftright", total=True)
def _shift(call: Call) -> Step:
    """By the low bits of the second argument; what is shifted out of an INT is lost, and its 32nd bit is the sign."""
    left, narrow = call.name == "shiftleft", call.type.name == "INT"

    def step(a: Column, b: Column) -> Column:
        by = b.data & (31 if narrow else 63)
        data: Int64s = a.data << by if left else a.data >> by
        return Column(call.type, data.astype(np.int32).astype(np.int64) if narrow else data, both(a.valid, b.valid))

    return step


@strict("bit_count", total=True)
def _count(call: Call) -> Step:
    def step(a: Column) -> Column:
        bits = np.unpackbits(np.ascontiguousarray(a.data).view(np.uint8).reshape(-1, 8), axis=1)
        return Column(INT, bits.sum(axis=1, dtype=np.int64), a.valid)

    return step
