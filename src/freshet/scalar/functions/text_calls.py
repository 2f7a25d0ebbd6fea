"""Typing and computing text functions of all families.

Arguments beyond the first are mostly literals, for which Arrow often has one vectorized call. Other functions are
computed in Python, once for each distinct text; row by row only if several arguments vary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.registry import FUNCTIONS, Resolver, Step, refuse
from freshet.scalar.functions.rows import both, each, every, flags, longest, strings, text_of, text_or_null
from freshet.scalar.types import BIGINT, BINARY, INT, STRING, Type
from freshet.state.arrays import Bools, Int64s, values_of

Fit = Callable[[str, tuple[Expression, ...]], tuple[Expression, ...]]


# Typing ---------------------------------------------------------------------------------------------------------


def as_text(argument: Expression) -> Expression:
    """An argument as text; CHAR and VARCHAR are text already and stay unchanged."""
    return argument if argument.type.name == "STRING" else cast(argument, STRING)


def alike(args: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """BINARY if all arguments are, or else all as text: even a bare NULL is text."""
    return args if all(a.type.name == "BINARY" for a in args) else tuple(as_text(a) for a in args)


def signature(*kinds: str, least: int | None = None) -> Fit:
    """Casts arguments to text ("s"), INT ("i") or BIGINT ("l"), takes only text ("t"), or only text and BINARY ("d");
    `least` of them are required, or all. Arguments that may be text or BINARY ("b") stay BINARY if all of them are, and
    are cast to text otherwise."""
    required = len(kinds) if least is None else least

    def fit(name: str, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
        if not required <= len(args) <= len(kinds):
            raise refuse(name, args)
        fitted = []
        of_bytes = all(a.type.name == "BINARY" for a, kind in zip(args, kinds, strict=False) if kind == "b")
        for argument, kind in zip(args, kinds, strict=False):
            if kind in "il" and not is_number(argument.type):
                raise refuse(name, args)
            if kind == "t" and argument.type.name not in ("STRING", "VOID"):
                raise refuse(name, args)
            if kind == "d" and argument.type.name not in ("STRING", "BINARY", "VOID"):
                raise refuse(name, args)
            if argument.type.name == "BINARY" and (kind == "d" or (kind == "b" and of_bytes)):
                fitted.append(argument)
            elif kind in "il":
                fitted.append(cast(argument, INT if kind == "i" else BIGINT))
            else:
                fitted.append(as_text(argument))
        return tuple(fitted)

    return fit


def is_number(type: Type) -> bool:
    """Whether Spark casts it to a number implicitly."""
    return type.is_numeric or type.name in ("STRING", "VOID")


def typed(type: Type | None, *kinds: str, least: int | None = None) -> Resolver:
    """The resolver of a function with this `signature`. Without a type it returns text for text, BINARY for BINARY."""
    fit = signature(*kinds, least=least)

    def resolver(name: str, args: tuple[Expression, ...]) -> Expression:
        fitted = fit(name, args)
        return Call(type or like_first(fitted), FUNCTIONS[name].name, fitted)

    return resolver


def like_first(args: Sequence[Expression]) -> Type:
    return BINARY if args[0].type.name == "BINARY" else STRING


# Computing ------------------------------------------------------------------------------------------------------


def literal(argument: Expression) -> Any:
    """The value of a literal that is not NULL; None for anything else."""
    return argument.value if isinstance(argument, Literal) else None


def constants(call: Call) -> list[Any] | None:
    """The values of all arguments but the first, when all are literals."""
    values = [literal(a) for a in call.args[1:]]
    return None if any(v is None for v in values) else values


def whole(type: Type, function: Callable[[Any], Any]) -> Step:
    """A step of one Arrow call on the first argument; the others are literals already inside `function`."""
    if type.pooled:
        return lambda a, *_: Column(type, strings(function(text_of(a)), type.pooled), a.valid)
    if type.name == "BOOLEAN":
        return lambda a, *_: Column(type, flags(function(text_of(a))), a.valid)

    def step(a: Column, *_: Column) -> Column:
        result = function(text_of(a))
        result = result.fill_null(0) if result.null_count else result
        return Column(type, values_of(result).astype(np.int64), a.valid)

    return step


def in_python(type: Type, function: Callable[..., Any]) -> Step:
    """A step of a function of Python values, which may return None for NULL: called once for each distinct text if only
    one text varies, otherwise row by row."""

    def step(*args: Column) -> Column:
        rows, valid = longest(*args), every(args)
        varying = [i for i, a in enumerate(args) if len(a) != 1]
        if len(varying) != 1:
            return _column(type, each(function, args, rows, valid), valid)
        place = varying[0]
        texts, which = _distinct(args[place], valid)
        distinct = [texts if i == place else a for i, a in enumerate(args)]
        try:
            made = _column(type, each(function, distinct, len(texts), None), None)
        except EvaluationError as e:
            raise EvaluationError(e.reason, int((which == e.row).argmax())) from None
        if not len(made):
            return _column(type, [None] * rows, None)
        taken = made.take(np.maximum(which, 0))
        return Column(type, taken.data, both(valid, taken.valid))

    return step


def _distinct(a: Column, valid: Bools | None) -> tuple[Column, Int64s]:
    """The distinct values of the valid rows, and which of them each row has; -1 where the row is NULL."""
    rows = len(a)
    if a.type.pooled:
        codes = text_or_null(a, valid).dictionary_encode()
        return Column(a.type, codes.dictionary), values_of(codes.indices.fill_null(-1))
    known = np.arange(rows) if valid is None else np.flatnonzero(np.broadcast_to(valid, rows))
    bits = a.data[known].view(np.int64)  # by bits: -0.0 and 0.0 have different texts
    unique, codes = np.unique(bits, return_inverse=True)
    which = np.full(rows, -1)
    which[known] = codes
    return Column(a.type, unique.view(a.data.dtype)), which


def where_ascii(arrow: Step, general: Step) -> Step:
    """The first step if all text is ASCII, which Arrow and Spark treat alike; the second if it is not."""

    def step(a: Column, *rest: Column) -> Column:
        is_ascii = pc.all(pc.string_is_ascii(text_of(a))).as_py() is not False
        return arrow(a, *rest) if is_ascii else general(a, *rest)

    return step


def _column(type: Type, values: Sequence[Any], valid: Bools | None) -> Column:
    known = None
    if None in values:
        known = np.array([v is not None for v in values], np.bool_)
    if type.pooled:
        return Column(type, pa.array(values, type.pooled), both(valid, known))
    data = np.array([0 if v is None else v for v in values], np.bool_ if type.name == "BOOLEAN" else np.int64)
    return Column(type, data, both(valid, known))
