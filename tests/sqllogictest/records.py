"""The sqllogictest format: statements, and queries with the answers they should have.

A file is a list of records with blank lines between them. Lines that begin with # are comments; `skipif` and `onlyif`
name an engine. A query record has a letter for each column (T text, I integer, R real), how its values are sorted, and
after ---- its values, one a line or one row a line with tabs between, or a count and their MD5 hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

ENGINE = "freshet"
_HASH = re.compile(r"^(\d+) values hashing to ([0-9a-f]{32})$")


@dataclass(frozen=True)
class Statement:
    line: int
    sql: str
    fails: bool  # the record says it must


@dataclass(frozen=True)
class Query:
    line: int
    sql: str
    types: str
    sort: str  # nosort, rowsort or valuesort
    values: tuple[str, ...] = ()
    hashed: tuple[int, str] | None = None


@dataclass(frozen=True)
class Unknown:
    """A record of another kind."""

    line: int
    words: str


Record = Statement | Query | Unknown


@dataclass
class _Lines:
    lines: list[str]
    at: int = 0
    skip: bool = field(default=False)

    def block(self) -> list[str]:
        """Lines up to the next blank one."""
        start = self.at
        while self.at < len(self.lines) and self.lines[self.at].strip():
            self.at += 1
        return self.lines[start : self.at]


def records(text: str) -> Iterator[Record]:
    lines = _Lines([line.rstrip() for line in text.splitlines()])
    while lines.at < len(lines.lines):
        number, words = lines.at + 1, lines.lines[lines.at].split()
        lines.at += 1
        if not words or words[0].startswith("#") or words[0] == "hash-threshold":
            continue
        if words[0] == "halt" and not lines.skip:
            return
        if words[0] in ("skipif", "onlyif"):
            engines = [w.lower() for w in words[1:2]]
            lines.skip = lines.skip or (ENGINE in engines) == (words[0] == "skipif")
            continue
        skipped, lines.skip = lines.skip, False
        if words[0] == "statement":
            body = _before_dashes(lines.block())
            record: Record = Statement(number, "\n".join(body[0]), words[1:2] == ["error"])
        elif words[0] == "query":
            record = _query(number, words, lines.block())
        else:
            lines.block()
            record = Unknown(number, " ".join(words))
        if not skipped:
            yield record


def _before_dashes(lines: list[str]) -> tuple[list[str], list[str]]:
    if "----" not in lines:
        return lines, []
    at = lines.index("----")
    return lines[:at], lines[at + 1 :]


def _query(number: int, words: list[str], block: list[str]) -> Query:
    sql, answer = _before_dashes(block)
    types = words[1] if len(words) > 1 else ""
    sort = next((w for w in words[2:] if w in ("nosort", "rowsort", "valuesort")), "nosort")
    hashed = _HASH.match(answer[0]) if len(answer) == 1 else None
    if hashed:
        return Query(number, "\n".join(sql), types, sort, (), (int(hashed[1]), hashed[2]))
    values = [v for line in answer for v in (line.split("\t") if len(types) > 1 else [line])]
    return Query(number, "\n".join(sql), types, sort, tuple(values))
