"""Numbers and codes that text has: its bytes, its sound, how far it is from another."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Literal
from freshet.scalar.functions.bounds import STEPS_A_BYTE, Texts, byte_sizes, known, most_steps, too_many_steps
from freshet.scalar.functions.registry import TOTAL_WHEN, Step, strict
from freshet.scalar.functions.rows import every, lane, longest
from freshet.scalar.functions.text_calls import in_python, register, signature, whole
from freshet.scalar.types import INT, STRING
from freshet.state import texts

register(INT, "text", signature("s", least=1), "ascii")
register(INT, "text or BINARY", signature("b", least=1), "octet_length")
register(INT, "text or BINARY", signature("b", least=1), "bit_length")
register(STRING, "text", signature("t", least=1), "soundex")
register(INT, "two texts, and optionally the greatest distance", signature("s", "s", "i", least=2), "levenshtein")


@strict("ascii", total=True)
def _ascii(call: Call) -> Step:
    return in_python(INT, lambda text: ord(text[0]) if text else 0)


@strict("octet_length", total=True)
def _octet_length(call: Call) -> Step:
    return whole(INT, pc.binary_length)


@strict("bit_length", total=True)
def _bit_length(call: Call) -> Step:
    return whole(INT, lambda text: pc.multiply(pc.binary_length(text), 8))


def _has_short(call: Call) -> bool:
    """Whether one of the texts is known, and so short that each of its characters may be compared with each of the
    other's."""
    return any(isinstance(a, Literal) and len(str(a.value)) < STEPS_A_BYTE for a in call.args[:2])


TOTAL_WHEN["levenshtein"] = _has_short


@strict("levenshtein", sized=True)
def _levenshtein(call: Call) -> Step:
    """Characters to insert, delete or replace; -1 beyond the greatest distance asked for."""

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


#: The digit of each letter; vowels part equal digits, H and W do not.
_DIGITS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))
_VOWEL, _SILENT = "0", "7"


def soundex(text: str) -> str:
    """Text that does not begin with a letter from A to Z is its own code; other characters part digits as vowels do."""
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


@strict("soundex", total=True)
def _soundex(call: Call) -> Step:
    return in_python(STRING, soundex)
