"""Patterns of dates and times: runs of one letter, each a field of Java's DateTimeFormatter, and text between them.

A pattern is a literal. Text in quotes is literal; a section in brackets is optional when parsing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from freshet.errors import SqlError, UnsupportedError
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.types import STRING

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")  # Monday is 0
_LONGEST = 1_000
_PIECES = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[\[\]]|[^A-Za-z'\[\]]+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A field (`letter`, repeated `count` times), a text, or without a letter a bracket: `text` is "[" or "]"."""

    text: str
    letter: str = ""

    @property
    def count(self) -> int:
        return len(self.text)

    @property
    def is_bracket(self) -> bool:
        return self.letter == "[]"


def literal_pattern(name: str, argument: Expression) -> Literal:
    """A pattern as a literal of text, which may be NULL."""
    pattern = cast(argument, STRING)
    if not isinstance(pattern, Literal):
        raise UnsupportedError(f"the pattern of {name.upper()} is not a literal; write it as one")
    return pattern


def cut(name: str, pattern: str) -> list[Piece]:
    """The pieces of a pattern; the caller decides which letters are valid, and how many of one. A bracket that is not
    closed ends with the pattern."""
    at = depth = 0
    if len(pattern) > _LONGEST:
        reason = f"the pattern of {name.upper()} has {len(pattern):,} characters; the limit is {_LONGEST}"
        raise SqlError(f"{reason}: split it")
    pieces: list[Piece] = []
    while at < len(pattern):
        piece = _PIECES.match(pattern, at)
        if piece is None:
            raise SqlError(f"the pattern {pattern!r} of {name.upper()} has a quote that is not closed; close it")
        if piece[2]:
            pieces.append(Piece(piece[0], piece[2]))
        elif piece[0] in "[]":
            depth += 1 if piece[0] == "[" else -1
            if depth < 0:
                raise SqlError(
                    f"the pattern {pattern!r} of {name.upper()} closes a bracket that is not open; remove it"
                )
            pieces.append(Piece(piece[0], "[]"))
        elif set("{}#") & set(piece[0]) and piece[1] is None:
            raise UnsupportedError(f"{{}}# in the pattern of {name.upper()} are not supported; put them into quotes")
        else:
            pieces.append(
                Piece("'" if piece[0] == "''" else piece[0] if piece[1] is None else piece[1].replace("''", "'"))
            )
        at = piece.end()
    return pieces + [Piece("]", "[]")] * depth


def unknown(name: str, piece: Piece, known: str) -> UnsupportedError:
    return UnsupportedError(f"{piece.text} in the pattern of {name.upper()} is not supported; these are: {known}")
