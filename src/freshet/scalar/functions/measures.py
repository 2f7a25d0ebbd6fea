"""Numbers and codes computed from text: its size, its sound, its distance from another text."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Literal
from freshet.scalar.functions.bounds import STEPS_A_BYTE, Texts, byte_sizes, known, most_steps, too_many_steps
from freshet.scalar.functions.registry import THIS, Function, Step, declare
from freshet.scalar.functions.rows import every, lane, longest
from freshet.scalar.functions.text_calls import in_python, typed, whole
from freshet.scalar.types import BOOLEAN, INT, STRING
from freshet.state import texts


def _ascii(call: Call) -> Step:
    return in_python(INT, lambda text: ord(text[0]) if text else 0)


def _octet_length(call: Call) -> Step:
    return whole(INT, pc.binary_length)


def _bit_length(call: Call) -> Step:
    return whole(INT, lambda text: pc.multiply(pc.binary_length(text), 8))


def _has_short(call: Call) -> bool:
    """Whether one of the texts is a literal, and short enough to compare each of its characters with each of the
    other's."""
    return any(isinstance(a, Literal) and len(str(a.value)) < STEPS_A_BYTE for a in call.args[:2])


def _levenshtein(call: Call) -> Step:
    """The number of characters to insert, delete or replace; -1 beyond the given greatest distance."""

    def step(a: Column, b: Column, *most: Column) -> Column:
        args = (a, b, *most)
        rows, valid, x, y = longest(*args), every(args), Texts(a), Texts(b)
        greatest = lane(most[0].data) if most else np.empty(0, np.int64)
        size = max(int(byte_sizes(t).max(initial=0)) for t in (a, b))
        out, steps = np.empty(rows, np.int64), most_steps((a, b), rows)
        bad = texts.levenshtein(*x.parts, *y.parts, known(valid, rows), greatest, size, steps, out)
        if bad >= 0:
            remedy = "compare shorter texts, or give the greatest distance that matters as the third argument"
            raise too_many_steps("levenshtein", (a, b), rows, bad, remedy)
        return Column(INT, out, valid)

    return step


#: The digit of each letter; vowels separate equal digits, H and W do not.
_DIGITS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))
_VOWEL, _SILENT = "0", "7"


def soundex(text: str) -> str:
    """Text that does not begin with a letter from A to Z is its own code; other characters separate digits as vowels
    do."""
    first = text[:1].upper() if text[:1].isascii() else ""
    if first not in _DIGITS:
        return text
    code, last = first, _DIGITS[first]
    for character in text[1:]:
        digit = _DIGITS.get(character.upper() if character.isascii() else "", _VOWEL)
        if digit == _SILENT:
            continue
        if digit not in (_VOWEL, last):
            code += digit
            if len(code) == 4:
                break
        last = digit
    return code.ljust(4, "0")


def _soundex(call: Call) -> Step:
    return in_python(STRING, soundex)


def _luhn_check(call: Call) -> Step:
    return in_python(BOOLEAN, passes_luhn)


def passes_luhn(text: str) -> bool:
    """Whether the last digit is a valid checksum, as in credit card numbers: from the right, every second digit is
    doubled and its digits are added, and the sum of all is a multiple of ten. Digits of any script are accepted, up to
    U+FFFF: those beyond are two characters in Java."""
    if not text or not all(c.isdecimal() and c <= "\uffff" for c in text):
        return False
    digits = [int(c) for c in reversed(text)]
    return (sum(digits[::2]) + sum(sum(divmod(2 * d, 10)) for d in digits[1::2])) % 10 == 0


declare(
    Function("ascii", "text", typed(INT, "s"), _ascii, parsed={exp.Ascii: THIS}, total=True),
    Function("octet_length", "text or BINARY", typed(INT, "b"), _octet_length, total=True),
    Function(
        "bit_length",
        "text or BINARY",
        typed(INT, "b"),
        _bit_length,
        parsed={exp.BitLength: THIS},
        total=True,
    ),
    Function("soundex", "text", typed(STRING, "t"), _soundex, parsed={exp.Soundex: THIS}, total=True),
    Function("luhn_check", "text", typed(BOOLEAN, "s"), _luhn_check, total=True),
    Function(
        "levenshtein",
        "two texts, and optionally the greatest distance",
        typed(INT, "s", "s", "i", least=2),
        _levenshtein,
        parsed={exp.Levenshtein: ("this", "expression", "ins_cost")},
        total=_has_short,
        sized=True,
    ),
)
