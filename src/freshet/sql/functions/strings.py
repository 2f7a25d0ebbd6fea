"""Text functions, over Arrow string arrays. Positions and lengths count characters, not bytes.

Arguments beyond the first are mostly literals, for which Arrow has one vectorized call; a function whose other
arguments vary by row is computed row by row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.column import Bools, Column
from freshet.errors import EvaluationError, SqlError
from freshet.sql.expression import Call, Expression, Literal
from freshet.sql.functions.casting import cast
from freshet.sql.functions.registry import TOTAL_WHEN, Step, refuse, resolves, strict
from freshet.sql.functions.rows import each, every, flags, longest, strings, text_of
from freshet.types import BOOLEAN, INT, STRING, Type

_LIMIT = 2**31 - 1


def _text(argument: Expression) -> Expression:
    """An argument as text; CHAR and VARCHAR already are, and stay as they are."""
    return argument if argument.type.name == "STRING" else cast(argument, STRING)


def _signature(*kinds: str, least: int) -> Callable[[str, tuple[Expression, ...]], tuple[Expression, ...]]:
    """Casts arguments to text ("s") or INT ("i"); `least` of them are required."""

    def fit(name: str, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
        if not least <= len(args) <= len(kinds):
            raise refuse(name, args)
        wrong = [a for a, k in zip(args, kinds, strict=False) if k == "i" and not _is_number(a.type)]
        if wrong:
            raise refuse(name, args)
        return tuple(_text(a) if k == "s" else cast(a, INT) for a, k in zip(args, kinds, strict=False))

    return fit


def _is_number(type: Type) -> bool:
    return type.is_numeric or type.name in ("STRING", "VOID")


def _register(type: Type, takes: str, fit: Any, *names: str) -> None:
    canonical = names[0]

    @resolves(*names, takes=takes)
    def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
        return Call(type, canonical, fit(name, args))


_one = _signature("s", least=1)
_register(STRING, "text", _one, "upper", "ucase")
_register(STRING, "text", _one, "lower", "lcase")
_register(INT, "text", _one, "length", "char_length", "character_length", "len")
for _name in ("trim", "ltrim", "rtrim"):
    _register(STRING, "text, and optionally the characters to remove", _signature("s", "s", least=1), _name)
_register(
    STRING, "text, a position, and optionally a length", _signature("s", "i", "i", least=2), "substring", "substr"
)
_register(STRING, "text, what to replace, and what with", _signature("s", "s", "s", least=2), "replace")
_register(BOOLEAN, "two texts", _signature("s", "s", least=2), "starts_with", "startswith")
_register(BOOLEAN, "two texts", _signature("s", "s", least=2), "ends_with", "endswith")
_register(BOOLEAN, "two texts", _signature("s", "s", least=2), "contains")
_register(STRING, "text and a number of characters", _signature("s", "i", least=2), "left")
_register(STRING, "text and a number of characters", _signature("s", "i", least=2), "right")
_register(STRING, "text, a length, and optionally the padding", _signature("s", "i", "s", least=2), "rpad")
_register(STRING, "text, a length, and optionally the padding", _signature("s", "i", "s", least=2), "lpad")


@resolves("concat", takes="values, each written as text")
def _resolve_concat(name: str, args: tuple[Expression, ...]) -> Expression:
    if not args:
        return Literal(STRING, "")
    return Call(STRING, name, tuple(_text(a) for a in args))


@resolves("like", takes="text, a pattern, and optionally a literal escape character")
def _resolve_like(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 2 <= len(args) <= 3 or any(a.type.name not in ("STRING", "VOID") for a in args):
        raise refuse(name, args)
    if len(args) == 3 and not (
        isinstance(args[2], Literal) and isinstance(args[2].value, str) and len(args[2].value) == 1
    ):
        raise refuse(name, args)
    pattern = _literal(args[1])
    if pattern is not None:
        try:
            _tokens(pattern, _escape(args))
        except EvaluationError as e:
            raise SqlError(e.reason) from None
    return Call(BOOLEAN, name, tuple(_text(a) for a in args))


def _escape(args: tuple[Expression, ...]) -> str:
    return str(_literal(args[2])) if len(args) == 3 else "\\"


# Computing ------------------------------------------------------------------------------------------------------


def _literal(argument: Expression) -> Any:
    """The value of a literal that is not NULL; None for anything else."""
    return argument.value if isinstance(argument, Literal) else None


def _constants(call: Call) -> list[Any] | None:
    """The values of all arguments but the first, when all are literals."""
    values = [_literal(a) for a in call.args[1:]]
    return None if any(v is None for v in values) else values


def _by_row(type: Type, function: Callable[..., Any]) -> Step:
    def step(*args: Column) -> Column:
        valid, rows = every(args), longest(*args)
        made = each(function, args, rows, valid)
        if type.name == "STRING":
            return Column(type, pa.array(made, pa.string()), valid)
        return Column(type, np.array([bool(m) for m in made], np.bool_), valid)

    return step


def _whole(type: Type, function: Callable[[Any], Any]) -> Step:
    """A step of one Arrow call on the first argument; the others are literals already inside `function`."""
    if type.name == "STRING":
        return lambda a, *_: Column(type, strings(function(text_of(a))), a.valid)
    return lambda a, *_: Column(type, flags(function(text_of(a))), a.valid)


@strict("upper", "lower", total=True)
def _case_of(call: Call) -> Step:
    return _whole(STRING, pc.utf8_upper if call.name == "upper" else pc.utf8_lower)


@strict("length", total=True)
def _length(call: Call) -> Step:
    def step(a: Column) -> Column:
        sizes = pc.utf8_length(text_of(a))
        sizes = sizes.fill_null(0) if sizes.null_count else sizes
        return Column(INT, sizes.to_numpy(zero_copy_only=False).astype(np.int64), a.valid)

    return step


@strict("trim", "ltrim", "rtrim", total=True)
def _trim(call: Call) -> Step:
    arrow = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[call.name]
    python = {"trim": str.strip, "ltrim": str.lstrip, "rtrim": str.rstrip}[call.name]
    characters = _constants(call)
    if characters is None:
        return _by_row(STRING, python)
    removed = characters[0] if characters else " "
    return _whole(STRING, lambda text: arrow(text, characters=removed))


def substring(text: str, position: int, length: int | None = None) -> str:
    """Counted from 1; 0 is 1, and a negative position counts from the end. What lies before the text is cut off."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    stop = _LIMIT if length is None else start + length
    return text[max(start, 0) : max(stop, 0)] if stop > start else ""


@strict("substring", total=True)
def _substring(call: Call) -> Step:
    given = _constants(call)
    if given is None:
        return _by_row(STRING, substring)
    position, length = given[0], given[1] if len(given) > 1 else None
    if length is not None and length <= 0:
        return _whole(STRING, lambda text: pc.utf8_slice_codeunits(text, 0, 0))
    start = position - 1 if position > 0 else position
    stop = None if length is None else min(start + length, _LIMIT)
    if start < 0 and stop is not None and stop >= 0:
        stop = None
    return _whole(STRING, lambda text: pc.utf8_slice_codeunits(text, start, stop))


@strict("left", "right", total=True)
def _side(call: Call) -> Step:
    left, given = call.name == "left", _constants(call)
    if given is None:
        return _by_row(STRING, lambda text, n: "" if n <= 0 else text[:n] if left else text[-n:])
    size = given[0]
    if size <= 0:
        return _whole(STRING, lambda text: pc.utf8_slice_codeunits(text, 0, 0))
    if left:
        return _whole(STRING, lambda text: pc.utf8_slice_codeunits(text, 0, size))
    return _whole(STRING, lambda text: pc.utf8_slice_codeunits(text, -size))


@strict("rpad", "lpad", total=True)
def _pad(call: Call) -> Step:
    right, given = call.name == "rpad", _constants(call)

    def pad(text: str, size: int, filler: str = " ") -> str:
        missing = size - len(text)
        if missing <= 0 or not filler:
            return text[: max(size, 0)]
        fill = (filler * (missing // len(filler) + 1))[:missing]
        return text + fill if right else fill + text

    if given is None or (len(given) == 2 and len(given[1]) != 1) or given[0] <= 0:
        return _by_row(STRING, pad)
    size, filler, arrow = given[0], given[1] if len(given) == 2 else " ", pc.utf8_rpad if right else pc.utf8_lpad
    return _whole(STRING, lambda text: pc.utf8_slice_codeunits(arrow(text, size, filler), 0, size))


@strict("replace", total=True)
def _replace(call: Call) -> Step:
    given = _constants(call)
    if given is None:
        return _by_row(STRING, lambda text, old, new="": text.replace(old, new) if old else text)
    old, new = given[0], given[1] if len(given) > 1 else ""
    if not old:
        return lambda a, *_: Column(STRING, a.data, a.valid, pool=a.pool)
    return _whole(STRING, lambda text: pc.replace_substring(text, old, new))


@strict("starts_with", "ends_with", "contains", total=True)
def _holds(call: Call) -> Step:
    arrow = {"starts_with": pc.starts_with, "ends_with": pc.ends_with, "contains": pc.match_substring}[call.name]
    python: dict[str, Callable[[str, str], bool]] = {
        "starts_with": lambda text, part: text.startswith(part),
        "ends_with": lambda text, part: text.endswith(part),
        "contains": lambda text, part: part in text,
    }
    part = _literal(call.args[1])
    if part is None:
        return _by_row(BOOLEAN, python[call.name])
    return _whole(BOOLEAN, lambda text: arrow(text, part))


@strict("concat", total=True)
def _concat(call: Call) -> Step:
    def step(*args: Column) -> Column:
        rows = longest(*args)
        texts: list[Any] = [text_of(a)[0] if len(a) == 1 != rows else text_of(a) for a in args]
        return Column(STRING, strings(pc.binary_join_element_wise(*texts, "")), every(args))

    return step


# LIKE -----------------------------------------------------------------------------------------------------------

_ANY, _MANY = object(), object()


def _tokens(pattern: str, escape: str) -> list[Any]:
    """Characters as they are, _ANY for `_` and _MANY for `%`. An escape may stand before `_`, `%` and itself only."""
    tokens: list[Any] = []
    rest = iter(pattern)
    for c in rest:
        if c == escape:
            follower = next(rest, None)
            if follower is None or follower not in ("_", "%", escape):
                what = "nothing" if follower is None else repr(follower)
                raise EvaluationError(f"LIKE pattern {pattern!r} escapes {what}; escape only _, % or {escape!r}", 0)
            tokens.append(follower)
        else:
            tokens.append(_ANY if c == "_" else _MANY if c == "%" else c)
    return tokens


def _plain(tokens: list[Any]) -> str | None:
    return None if _ANY in tokens or _MANY in tokens else "".join(tokens)


def matcher(pattern: str, escape: str) -> Callable[[Any], Any]:
    """The Arrow call that tests a pattern: a plain comparison or search where the pattern allows it."""
    tokens = _tokens(pattern, escape)
    whole = _plain(tokens)
    if whole is not None:
        return lambda text: pc.equal(text, whole)
    starts, ends = tokens[0] is _MANY, tokens[-1] is _MANY
    inner = _plain(tokens[1 if starts else 0 : -1 if ends else None])
    if inner is not None and starts and ends:
        return lambda text: pc.match_substring(text, inner)
    if inner is not None:
        return lambda text: pc.ends_with(text, inner) if starts else pc.starts_with(text, inner)
    regex = "".join("." if t is _ANY else ".*" if t is _MANY else re.escape(t) for t in tokens)
    return lambda text: pc.match_substring_regex(text, rf"(?s)\A(?:{regex})\z")


TOTAL_WHEN["like"] = lambda call: isinstance(call.args[1], Literal)  # its escapes were checked


@strict("like")
def _like(call: Call) -> Step:
    escape = _escape(call.args)
    pattern = _literal(call.args[1])
    if pattern is not None:
        return _whole(BOOLEAN, matcher(pattern, escape))

    def step(a: Column, b: Column, *_: Column) -> Column:
        """Each distinct pattern is tested once, on its own rows."""
        rows, valid = longest(a, b), every((a, b))
        text, patterns = text_of(a), text_of(b)
        if len(patterns) != rows:
            patterns = patterns.take(np.zeros(rows, np.int64))
        if len(text) != rows:
            text = text.take(np.zeros(rows, np.int64))
        codes = patterns.dictionary_encode()
        which = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        data: Bools = np.zeros(rows, np.bool_)
        for code, one in enumerate(codes.dictionary.to_pylist()):
            mine = np.flatnonzero(which == code if valid is None else (which == code) & valid)
            if not len(mine):
                continue
            try:
                data[mine] = flags(matcher(one, escape)(text.take(mine)))
            except EvaluationError as e:
                raise EvaluationError(e.reason, int(mine[0])) from None
        return Column(BOOLEAN, data, valid)

    return step
