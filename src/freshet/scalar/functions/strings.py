"""Text functions, over Arrow string arrays. Positions and lengths count characters; those of BINARY count bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, AnyStr

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.bounds import Texts, byte_sizes, check_sizes, known, made_text, most_steps, too_many_steps
from freshet.scalar.functions.padding import SPACE, padded
from freshet.scalar.functions.registry import BOTH, THIS, Function, Step, declare, resolve
from freshet.scalar.functions.rows import constant, every, joined, longest, text_or_null
from freshet.scalar.functions.text_calls import (
    alike,
    constants,
    in_python,
    like_first,
    literal,
    typed,
    where_ascii,
    whole,
)
from freshet.scalar.types import BINARY, BOOLEAN, INT, STRING, Type
from freshet.state import texts

_LIMIT = 2**31 - 1
_NOTHING, _ZERO = constant(Literal(STRING, "")), constant(Literal(BINARY, b"\0"))


def _resolve_concat(name: str, args: tuple[Expression, ...]) -> Expression:
    if not args:
        return Literal(STRING, "")
    if any(a.type.is_nested for a in args):
        return resolve("array_concat", args)
    values = alike(args)
    return Call(like_first(values), name, values)


# Computing ------------------------------------------------------------------------------------------------------


def _case_of(call: Call) -> Step:
    """One letter may become several (ß is SS), and a final Σ has a form of its own: Arrow supports neither."""
    if call.name == "upper":
        return where_ascii(whole(STRING, pc.ascii_upper), in_python(STRING, str.upper))
    return where_ascii(whole(STRING, pc.ascii_lower), in_python(STRING, str.lower))


def _length(call: Call) -> Step:
    return whole(INT, pc.binary_length if call.args[0].type.name == "BINARY" else pc.utf8_length)


def _trim(call: Call) -> Step:
    arrow = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[call.name]
    characters = constants(call)
    if characters is None:
        left, right = call.name != "rtrim", call.name != "ltrim"
        return in_python(STRING, lambda text, removed: _trimmed(text, set(removed), left, right))
    removed = characters[0] if characters else " "
    return whole(STRING, lambda text: arrow(text, characters=removed))


def _trimmed(text: str, removed: set[str], left: bool, right: bool) -> str:
    """str.strip searches all the characters to remove for each one that it removes."""
    begin, end = 0, len(text)
    while left and begin < end and text[begin] in removed:
        begin += 1
    while right and begin < end and text[end - 1] in removed:
        end -= 1
    return text[begin:end]


def substring(text: AnyStr, position: int, length: int | None = None) -> AnyStr:
    """Positions count from 1; 0 means 1, and a negative position counts from the end. A part before the text is cut
    off."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    stop = _LIMIT if length is None else start + length
    return text[max(start, 0) : max(stop, 0)] if stop > start else text[:0]


def _substring(call: Call) -> Step:
    given = constants(call)
    if given is None:
        return in_python(call.type, substring)
    position, length = given[0], given[1] if len(given) > 1 else None
    if length is not None and length <= 0:
        return _sliced(call.type, 0, 0)
    start = position - 1 if position > 0 else position
    stop = None if length is None else min(start + length, _LIMIT)
    if start < 0 and stop is not None and stop >= 0:
        stop = None
    return _sliced(call.type, start, stop)


def _sliced(type: Type, start: int, stop: int | None = None) -> Step:
    """Some of the characters, or bytes, with Python's positions."""
    if type.name == "BINARY":
        return whole(type, lambda data: pc.binary_slice(data, start, _LIMIT if stop is None else stop))
    return whole(type, lambda text: pc.utf8_slice_codeunits(text, start, stop))


def _side(call: Call) -> Step:
    left, given = call.name == "left", constants(call)
    if given is None:
        return in_python(call.type, lambda text, n: text[:0] if n <= 0 else text[:n] if left else text[-n:])
    size = max(given[0], 0)
    return _sliced(call.type, 0, size) if left or not size else _sliced(call.type, -size)


def _pad(call: Call) -> Step:
    if call.type.name == "BINARY":
        return _padded_bytes(call.name, call.name == "lpad")

    def step(a: Column, width: Column, filler: Column = SPACE) -> Column:
        args = (a, width, filler)
        return Column(STRING, padded(call.name, call.name == "lpad", *args), every(args))

    return step


def _padded_bytes(what: str, left: bool) -> Step:
    """As `padded`, for BINARY, which is padded with zeros by default."""

    def pad(data: bytes, width: int, filler: bytes) -> bytes:
        missing = width - len(data)
        if missing <= 0 or not filler:
            return data[: max(width, 0)]
        more = (filler * (-(-missing // len(filler))))[:missing]
        return more + data if left else data + more

    made = in_python(BINARY, pad)

    def step(a: Column, width: Column, filler: Column = _ZERO) -> Column:
        args = (a, width, filler)
        filled = np.where(byte_sizes(filler) > 0, np.maximum(width.data, 0), 0)
        check_sizes(what, np.maximum(filled, byte_sizes(a)), every(args), longest(*args))
        return made(*args)

    return step


def _replace(call: Call) -> Step:
    def step(a: Column, old: Column, new: Column = _NOTHING) -> Column:
        args = (a, old, new)
        rows, valid = longest(*args), every(args)
        x, y, z = Texts(a), Texts(old), Texts(new)
        sizes, steps, ok = np.empty(rows, np.int64), most_steps(args, rows), known(valid, rows)
        bad = texts.replace(*x.parts, *y.parts, *z.parts, ok, steps, sizes, 0)
        if bad >= 0:
            raise too_many_steps("replace", args, rows, bad, "replace a shorter text")
        check_sizes("replace", sizes, None, rows)
        out = np.empty(int(sizes.sum()), np.uint8)
        texts.replace(*x.parts, *y.parts, *z.parts, ok, steps, sizes, out.ctypes.data)
        return Column(STRING, made_text(sizes, out), valid)

    return step


def _holds(call: Call) -> Step:
    arrow = {"starts_with": pc.starts_with, "ends_with": pc.ends_with, "contains": pc.match_substring}[call.name]
    python: dict[str, Callable[[Any, Any], bool]] = {
        "starts_with": lambda text, part: text.startswith(part),
        "ends_with": lambda text, part: text.endswith(part),
        "contains": lambda text, part: part in text,
    }
    part = literal(call.args[1])
    if part is None:
        return in_python(BOOLEAN, python[call.name])
    return whole(BOOLEAN, lambda text: arrow(text, part))


def _concat(call: Call) -> Step:
    def step(*args: Column) -> Column:
        rows, valid = longest(*args), every(args)
        check_sizes("concat", sum((byte_sizes(a) for a in args), np.zeros(1, np.int64)), valid, rows)
        parts: list[Any] = [text_or_null(a, a.valid) for a in args]
        parts = [p[0] if len(p) == 1 != rows else p for p in parts]
        return Column(call.type, joined(*parts, kind=call.type.pooled), valid)

    return step


declare(
    Function("upper", "text", typed(STRING, "s"), _case_of, also=("ucase",), parsed={exp.Upper: THIS}, total=True),
    Function("lower", "text", typed(STRING, "s"), _case_of, also=("lcase",), parsed={exp.Lower: THIS}, total=True),
    Function(
        "length",
        "text or BINARY",
        typed(INT, "b"),
        _length,
        also=(
            "char_length",
            "character_length",
            "len",
        ),
        parsed={exp.Length: THIS},
        total=True,
    ),
    Function(
        "substring",
        "text or BINARY, a position, and optionally a length",
        typed(None, "b", "i", "i", least=2),
        _substring,
        also=("substr",),
        parsed={exp.Substring: ("this", "start", "length")},
        total=True,
    ),
    Function(
        "replace",
        "text, what to replace, and what with",
        typed(STRING, "s", "s", "s", least=2),
        _replace,
        parsed={exp.Replace: ("this", "expression", "replacement")},
        sized=True,
    ),
    Function(
        "starts_with",
        "two texts, or two of BINARY",
        typed(BOOLEAN, "b", "b"),
        _holds,
        also=("startswith",),
        parsed={exp.StartsWith: BOTH},
        total=True,
    ),
    Function(
        "ends_with",
        "two texts, or two of BINARY",
        typed(BOOLEAN, "b", "b"),
        _holds,
        also=("endswith",),
        parsed={exp.EndsWith: BOTH},
        total=True,
    ),
    Function(
        "contains",
        "two texts, or two of BINARY",
        typed(BOOLEAN, "b", "b"),
        _holds,
        parsed={exp.Contains: BOTH},
        total=True,
    ),
    Function(
        "left",
        "text or BINARY, and how much of it",
        typed(None, "b", "i"),
        _side,
        parsed={exp.Left: BOTH},
        total=True,
    ),
    Function(
        "right",
        "text and a number of characters",
        typed(STRING, "s", "i"),
        _side,
        parsed={exp.Right: BOTH},
        total=True,
    ),
    *(
        Function(
            name,
            "text or BINARY, a length, and optionally the padding",
            typed(None, "b", "i", "b", least=2),
            _pad,
            parsed={exp.Pad: None},
            sized=True,
        )
        for name in ("rpad", "lpad")
    ),
    Function(
        "concat",
        "values, each written as text, all of BINARY, or arrays",
        _resolve_concat,
        _concat,
        parsed={exp.Concat: ("expressions",)},
        operator=exp.DPipe,
        nested=True,
        sized=True,
    ),
    *(
        Function(
            name,
            "text, and optionally the characters to remove",
            typed(STRING, "s", "s", least=1),
            _trim,
            parsed={exp.Trim: None},
            total=True,
        )
        for name in ("trim", "ltrim", "rtrim")
    ),
)
