"""Digests and encodings of BINARY, and of the UTF-8 bytes of text; FORMAT_NUMBER."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal

import numpy as np
from sqlglot import exp

from freshet.errors import EvaluationError, UnsupportedError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.bounds import byte_sizes, check_sizes
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import THIS, Function, Step, declare, refuse
from freshet.scalar.functions.rows import as_bytes, longest, text_of
from freshet.scalar.functions.text_calls import as_text, in_python, literal, typed
from freshet.scalar.functions.text_casts import writer
from freshet.scalar.hexadecimal import digits
from freshet.scalar.types import BIGINT, DOUBLE, INT, STRING, Type
from freshet.state.arrays import Int64s

#: The maximal digits after the point in FORMAT_NUMBER, for a decimal and for other numbers.
_MOST_DIGITS, _LANE_DIGITS = 10_000, 340
_WIDEST = 420  # bytes before the point
_EXACT = Context(prec=_MOST_DIGITS + 400, rounding=ROUND_HALF_EVEN)
_WORDS = {"NaN": "NaN", "Infinity": "∞", "-Infinity": "-∞"}


def _resolve_hex(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1:
        raise refuse(name, args)
    if args[0].type.name == "BINARY":
        return Call(STRING, name, args)
    return Call(STRING, name, (cast(args[0], BIGINT) if args[0].type.is_numeric else as_text(args[0]),))


def _resolve_format(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or not (args[0].type.is_numeric or args[0].type.name == "VOID"):
        raise refuse(name, args)
    if args[1].type.name == "STRING":
        raise UnsupportedError("FORMAT_NUMBER with a pattern is not supported; give the number of digits instead")
    if args[1].type.name not in ("INT", "VOID"):
        raise refuse(name, args)
    number = cast(args[0], DOUBLE) if args[0].type.name in ("FLOAT", "VOID") else args[0]
    return Call(STRING, name, (number, cast(args[1], INT)))


# Computing ------------------------------------------------------------------------------------------------------


def _digest(call: Call) -> Step:
    made = hashlib.md5 if call.name == "md5" else hashlib.sha1
    return _of_bytes(in_python(STRING, lambda data: made(data, usedforsecurity=False).hexdigest()))


def _of_bytes(step: Step) -> Step:
    """A step on the first argument's bytes."""
    return lambda a, *rest: step(as_bytes(a), *rest)


def sha2(data: bytes, bits: int) -> str | None:
    """0 means 256; invalid lengths give NULL."""
    if bits not in (0, 224, 256, 384, 512):
        return None
    return hashlib.new(f"sha{bits or 256}", data).hexdigest()


def _sha2(call: Call) -> Step:
    return _of_bytes(in_python(STRING, sha2))


def _crc32(call: Call) -> Step:
    return _of_bytes(in_python(BIGINT, zlib.crc32))


def _base64(call: Call) -> Step:
    """As in MIME: lines of 76 characters."""

    def encode(data: bytes) -> str:
        written = base64.b64encode(data).decode()
        return "\r\n".join(written[i : i + 76] for i in range(0, len(written), 76))

    return _sized(call, in_python(STRING, encode), lambda size: -(-size // 3) * 4 + size // 57 * 2)


def _sized(call: Call, step: Step, made: Callable[[Int64s], Int64s]) -> Step:
    """A step on the bytes of texts, whose results are checked for their size."""

    def sized(a: Column) -> Column:
        check_sizes(call.name, made(byte_sizes(a)), a.valid, len(a))
        return step(as_bytes(a))

    return sized


def _hex(call: Call) -> Step:
    if call.args[0].type.pooled:
        return _sized(call, lambda a: Column(STRING, digits(text_of(a)), a.valid), lambda size: 2 * size)
    return in_python(STRING, lambda number: f"{number & 0xFFFF_FFFF_FFFF_FFFF:X}")


def format_number(written: str, digits: int, source: Type) -> str | None:
    """Groups of three, and half to even. A double is rounded by its shortest digits, but if these are halfway between
    two results, its exact value decides, as in Java."""
    if digits < 0:
        return None
    if source.name != "DECIMAL":
        digits = min(digits, _LANE_DIGITS)
    if digits > _MOST_DIGITS:
        raise EvaluationError(f"FORMAT_NUMBER with {digits} digits; the limit is {_MOST_DIGITS}")
    if written in _WORDS:
        return _WORDS[written]
    unit = Decimal(1).scaleb(-digits, _EXACT)
    value = Decimal(written)
    rounded = value.quantize(unit, context=_EXACT)
    if source.is_fraction and 2 * abs(_EXACT.subtract(value, rounded)) == unit:
        rounded = Decimal(float(written)).quantize(unit, context=_EXACT)
    return f"{rounded:,f}"


def _shows_few(call: Call) -> bool:
    digits = literal(call.args[1])
    return call.args[0].type.name != "DECIMAL" or (digits is not None and digits <= _MOST_DIGITS)


def _format_number(call: Call) -> Step:
    source = call.args[0].type
    write = writer(source, STRING)
    shown = in_python(STRING, lambda written, digits: format_number(written, digits, source))

    def step(a: Column, digits: Column) -> Column:
        most = _MOST_DIGITS if source.name == "DECIMAL" else _LANE_DIGITS
        check_sizes(call.name, np.clip(digits.data, 0, most) + _WIDEST, digits.valid, longest(a, digits))
        return shown(write(a), digits)

    return step


declare(
    Function("md5", "text or BINARY", typed(STRING, "d"), _digest, parsed={exp.MD5: THIS}, total=True),
    Function(
        "sha1",
        "text or BINARY",
        typed(STRING, "d"),
        _digest,
        also=("sha",),
        parsed={exp.SHA: THIS},
        total=True,
    ),
    Function(
        "sha2",
        "text or BINARY, and 224, 256, 384 or 512",
        typed(STRING, "d", "i"),
        _sha2,
        parsed={exp.SHA2: ("this", "length")},
        nulls=IF_ANY_OR_ELSE,
        total=True,
    ),
    Function("crc32", "text or BINARY", typed(BIGINT, "d"), _crc32, total=True),
    Function(
        "base64",
        "text or BINARY",
        typed(STRING, "d"),
        _base64,
        parsed={exp.ToBase64: THIS},
        sized=True,
    ),
    Function(
        "hex",
        "a number, text or BINARY",
        _resolve_hex,
        _hex,
        parsed={exp.Hex: THIS},
        total=lambda call: not call.args[0].type.pooled,
        sized=True,
    ),
    Function(
        "format_number",
        "a number and how many digits after the point",
        _resolve_format,
        _format_number,
        nulls=IF_ANY_OR_ELSE,
        total=_shows_few,
    ),
)
