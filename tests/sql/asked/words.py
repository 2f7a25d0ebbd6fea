"""Words and properties of characters in patterns. Where words begin and end is asked of texts of ASCII: Java counts
other letters into words up to version 18."""

from __future__ import annotations

_TEXTS = (
    "a foo b", "foo", "afoo", "foo_ foo", "foo-foo", "", " ", "foo1 x", "A1b2", "Éé ß x", "ÀB 12", "٣4", "a\tb",
    "日本 x", "a-b_c", "#$ %", "ab", "é", "Foo FOO", "x.y",
)  # fmt: skip
_EDGES = (
    r"\\bfoo\\b", r"\\bfoo", r"foo\\b", r"\\Bfoo", r"foo\\B", r"(\\b)f", r"\\b", r"\\B", r"^\\b", r"\\b$",
    r"(?i)\\bfoo",
)  # fmt: skip
_PROPERTIES = (
    r"\\p{L}+", r"\\pL", r"\\P{L}+", r"\\p{Lu}", r"\\p{Ll}+", r"\\p{IsLu}", r"\\p{N}", r"\\p{Nd}+",
    r"[\\p{L}\\p{N}_]+",
    r"[^\\p{L} ]+", r"\\p{Alpha}+", r"\\p{Punct}", r"\\p{Upper}\\p{Lower}", r"\\p{Space}", r"\\p{Alnum}+",
    r"\\p{XDigit}", r"\\p{S}", r"\\p{Z}", r"\\p{Blank}", r"\\p{Cntrl}", r"\\p{ASCII}+", r"\\p{Graph}+",
    r"\\p{Print}+", r"\\p{Digit}+",
)  # fmt: skip


def _asked(pattern: str) -> str:
    called = f"s RLIKE '{pattern}' AS r, regexp_replace(s, '{pattern}', '<$0>') AS t, regexp_count(s, '{pattern}') AS n"
    return f"SELECT id, {called} FROM words"


ROWS = ", ".join("({}, '{}')".format(i, text.replace("\t", "\\t")) for i, text in enumerate(_TEXTS))
QUERIES = [f"{_asked(p)} WHERE LENGTH(s) = OCTET_LENGTH(s)" for p in _EDGES] + [_asked(p) for p in _PROPERTIES]
