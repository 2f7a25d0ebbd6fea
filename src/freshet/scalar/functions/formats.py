"""FORMAT_STRING and PRINTF: each specifier of the format becomes an expression over its argument.

A specifier is %[argument$][flags][width][.precision]conversion, as in Java. NULL is written "null", truncated to a
precision; values that are narrower than the width are padded with spaces.
"""

from __future__ import annotations

import re

from freshet.errors import SqlError, UnsupportedError
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.registry import Function, declare, refuse, resolve
from freshet.scalar.functions.text_calls import as_text
from freshet.scalar.types import BIGINT, INT, STRING, decimal

_PARTS = re.compile(r"%(?:(\d{1,3})\$)?([-#+ 0,(]*)(\d{1,6})?(?:\.(\d{1,3}))?([a-zA-Z%])|([^%]+)|(%)")
_MOST = 100  # specifiers
_FLAGS = {"s": "-", "d": "-+ 0,(", "x": "-0#", "f": "-+ 0,("}
_MASKS = {"TINYINT": 0xFF, "SMALLINT": 0xFFFF, "INT": 0xFFFF_FFFF}


def _made(name: str, args: tuple[Expression, ...]) -> Expression:
    return fold(resolve(name, args))


def _text(value: str) -> Expression:
    return Literal(STRING, value)


def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
    if not args:
        raise refuse(name, args)
    given, values = cast(args[0], STRING), args[1:]
    if not isinstance(given, Literal):
        raise UnsupportedError(f"the format of {name.upper()} is not a literal; write it as one")
    if given.value is None:
        return given
    pieces, following = list[Expression](), 0
    for match in _PARTS.finditer(str(given.value)):
        at, flags, width, precision, conversion, text, stray = match.groups()
        if stray:
            raise SqlError(f"a % without a conversion in the format of {name.upper()}; write %% for a percent sign")
        if text or conversion in "%n":
            pieces.append(_text(text or ("%" if conversion == "%" else "\n")))
            continue
        if at is None:
            following += 1
        place = following if at is None else int(at)
        if not 1 <= place <= len(values):
            missing = f"{match[0]} in the format of {name.upper()} has no argument"
            raise SqlError(f"{missing}; there are {len(values)}: give one per specifier")
        pieces.append(_specified(name, match[0], values[place - 1], flags, width, precision, conversion))
        if len(pieces) > _MOST:
            raise SqlError(f"the format of {name.upper()} has more than {_MOST} parts; write it in several calls")
    return _made("concat", tuple(pieces)) if pieces else _text("")


def _specified(
    name: str, written: str, value: Expression, flags: str, width: str | None, precision: str | None, conversion: str
) -> Expression:
    """One argument, formatted by its specifier."""
    kind = conversion.lower()
    if kind not in _FLAGS or conversion in ("D", "F"):
        raise UnsupportedError(f"{written} in the format of {name.upper()} is not supported; these are: %s %d %x %f")
    left, zeros = "-" in flags, "0" in flags
    if (
        not set(flags) <= set(_FLAGS[kind])
        or len(set(flags)) != len(flags)
        or (width is None and (left or zeros))
        or (left and zeros)
        or ("+" in flags and " " in flags)
        or (precision is not None and kind in "dx")
    ):
        raise SqlError(f"{written} in the format of {name.upper()} is not a valid specifier; correct its flags")
    fill = int(width or 0) if zeros else 0
    if kind == "s":
        made = _plain(name, written, value, precision)
    elif kind == "x":
        made = _hexadecimal(name, written, value, "#" in flags, fill)
    else:
        made = _number(name, written, value, kind, flags, int(precision or 6), fill)
    made = _made("coalesce", (made, _text("null" if precision is None else "null"[: int(precision)])))
    made = _made("upper", (made,)) if conversion.isupper() else made
    return made if width is None else _padded(made, Literal(INT, int(width)), "rpad" if left else "lpad", " ")


def _unfit(name: str, written: str, value: Expression, takes: str) -> SqlError:
    reason = f"{written} in the format of {name.upper()} takes {takes}, not {value.type}; cast the argument"
    return UnsupportedError(reason) if value.type.name in ("DATE", "TIMESTAMP") else SqlError(reason)


def _plain(name: str, written: str, value: Expression, precision: str | None) -> Expression:
    if not (value.type.is_numeric or value.type.name in ("STRING", "BOOLEAN", "VOID")):
        raise _unfit(name, written, value, "text, a number or a BOOLEAN")
    made = as_text(value)
    return made if precision is None else _made("left", (made, Literal(INT, int(precision))))


def _hexadecimal(name: str, written: str, value: Expression, prefixed: bool, fill: int) -> Expression:
    if not (value.type.is_integer or value.type.name == "VOID"):
        raise _unfit(name, written, value, "an integer")
    wide = cast(value, BIGINT)
    mask = _MASKS.get(value.type.name)
    wide = wide if mask is None else _made("bit_and", (wide, Literal(BIGINT, mask)))
    return _signed(_text("0x" if prefixed else ""), _made("lower", (_made("hex", (wide,)),)), fill)


def _number(
    name: str, written: str, value: Expression, kind: str, flags: str, digits: int, fill: int
) -> Expression:  # fmt: skip
    """Digits, and the sign before them; a negative number that is rounded to zero keeps it."""
    fits = value.type.is_integer if kind == "d" else value.type.is_fraction
    if not (fits or value.type.name == "VOID"):
        raise _unfit(name, written, value, "an integer" if kind == "d" else "a DOUBLE or FLOAT")
    if kind == "f" and digits > 20:
        raise UnsupportedError(f"{written} in the format of {name.upper()} is not supported; the limit is 20 digits")
    exact = cast(value, decimal(38, digits if kind == "f" else 0))
    size = _made("abs", (exact,))
    grouped = "," in flags
    body = _made("format_number", (size, Literal(INT, size.type.scale))) if grouped else as_text(size)
    negative = _made("lt", (value, Literal(INT, 0)))
    plus = "+" if "+" in flags else " " if " " in flags else ""
    sign = _made("case", (negative, _text("(" if "(" in flags else "-"), _text(plus)))
    if "(" not in flags:
        return _signed(sign, body, fill)
    closing = _made("case", (negative, _text(")"), _text("")))
    return _made("concat", (_signed(sign, body, fill), closing))


def _signed(sign: Expression, body: Expression, fill: int) -> Expression:
    if fill:
        room = _made("subtract", (Literal(INT, fill), _made("length", (sign,))))
        body = _padded(body, room, "lpad", "0")
    return _made("concat", (sign, body))


def _padded(text: Expression, width: Expression, name: str, filler: str) -> Expression:
    most = _made("greatest", (width, _made("length", (text,))))
    return _made(name, (text, most, _text(filler)))


declare(
    Function("format_string", "a literal format and as many arguments as it reads", _resolve, also=("printf",)),
)
