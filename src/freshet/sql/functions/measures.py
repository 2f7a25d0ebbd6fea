"""Numbers and codes that text has: its bytes, its sound, how far it is from another."""

from __future__ import annotations

import pyarrow.compute as pc

from freshet.sql.expression import Call
from freshet.sql.functions.registry import Step, strict
from freshet.sql.functions.text_calls import in_python, register, signature, whole
from freshet.types import INT, STRING

register(INT, "text", signature("s", least=1), "ascii")
register(INT, "text", signature("s", least=1), "octet_length")
register(INT, "text", signature("s", least=1), "bit_length")
register(STRING, "text", signature("s", least=1), "soundex")
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


def levenshtein(a: str, b: str, most: int | None = None) -> int:
    """Characters to insert, delete or replace; -1 beyond the greatest distance asked for."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], before if x == y else 1 + min(before, row[j], row[j - 1])
    return row[-1] if most is None or row[-1] <= most else -1


@strict("levenshtein", total=True)
def _levenshtein(call: Call) -> Step:
    return in_python(INT, levenshtein)


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
