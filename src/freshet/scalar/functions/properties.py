"""Properties of characters in patterns: the general categories of Unicode, as Python knows them, and the classes of
ASCII that Java has under POSIX names."""

from __future__ import annotations

import string
import sys
import unicodedata
from functools import cache

Spans = list[tuple[int, int]]

_ASCII = {
    "Lower": string.ascii_lowercase,
    "Upper": string.ascii_uppercase,
    "ASCII": "".join(map(chr, range(128))),
    "Alpha": string.ascii_letters,
    "Digit": string.digits,
    "Alnum": string.ascii_letters + string.digits,
    "Punct": string.punctuation,
    "Graph": "".join(map(chr, range(0x21, 0x7F))),
    "Print": "".join(map(chr, range(0x20, 0x7F))),
    "Blank": " \t",
    "Cntrl": "".join(map(chr, [*range(0x20), 0x7F])),
    "XDigit": string.hexdigits,
    "Space": " \t\n\x0b\f\r",
}
_SURROGATES = range(0xD800, 0xE000)


def property_named(name: str) -> Spans | None:
    """The characters that have a property; None if there is none of that name here."""
    if name in _ASCII:
        return [(ord(c), ord(c)) for c in _ASCII[name]]
    category = name.removeprefix("Is")
    spans = [span for known, own in _categories().items() if known.startswith(category) for span in own]
    return spans if spans and 1 <= len(category) <= 2 and not category.startswith("C") else None


@cache
def _categories() -> dict[str, Spans]:
    """The characters of each category."""
    spans: dict[str, Spans] = {}
    last = ""
    for code in range(sys.maxunicode + 1):
        if code in _SURROGATES:
            last = ""
            continue
        category = unicodedata.category(chr(code))
        own = spans.setdefault(category, [])
        if category == last:
            own[-1] = (own[-1][0], code)
        else:
            own.append((code, code))
        last = category
    return spans
