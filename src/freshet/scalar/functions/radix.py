"""Integers written in other bases: BIN, and CONV between any two of 2 to 36, over 64 unsigned bits as in Spark."""

from __future__ import annotations

from freshet.errors import EvaluationError, brief
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import Function, Step, declare, refuse
from freshet.scalar.functions.text_calls import in_python, is_number, typed
from freshet.scalar.types import BIGINT, STRING

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ALL = (1 << 64) - 1


def _resolve_bin(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or not is_number(args[0].type):
        raise refuse(name, args)
    return Call(STRING, name, (cast(args[0], BIGINT),))


def _bin(call: Call) -> Step:
    return in_python(STRING, lambda number: f"{number & _ALL:b}")


def _conv(call: Call) -> Step:
    return in_python(STRING, _converted)


def _converted(text: str, base: int, to: int) -> str | None:
    """Digits up to the first other character. A negative base formats the 64 bits as a signed number."""
    text = text.strip(" ")
    if not text or not 2 <= base <= 36 or not 2 <= abs(to) <= 36:
        return None
    negative = text[0] == "-"
    value = 0
    for character in text[negative:]:
        digit = _DIGITS.find(character.upper()) if character.isascii() else -1
        if not 0 <= digit < base:
            break
        value = value * base + digit
        if value > _ALL:
            raise EvaluationError(f"{brief(text)} does not fit the 64 bits of CONV; shorten it")
    signed = value >> 63
    if to > 0:
        value = _ALL if negative and signed else -value & _ALL if negative else value
        return _written(value, to)
    value = (1 << 64) - value if signed else value
    return ("-" if negative or signed else "") + _written(value, -to)


def _written(value: int, base: int) -> str:
    digits = ""
    while value:
        value, digit = divmod(value, base)
        digits = _DIGITS[digit] + digits
    return digits or "0"


declare(
    Function(
        "conv",
        "a number as text, its base and the base to write it in",
        typed(STRING, "s", "i", "i"),
        _conv,
        nulls=IF_ANY_OR_ELSE,
    ),
    Function("bin", "a number", _resolve_bin, _bin, total=True),
)
