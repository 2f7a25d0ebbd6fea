"""The text a statement came from: its tokens, its parsed form, and errors that point into it.

Every node of a parsed statement either carries the offset of its token or has one below it that does, so an error can
always be placed: at the node's own token, else at the earliest token below it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from freshet.errors import SqlError, UnsupportedError


class Reader(Spark):
    """Spark's grammar, with CAST kept apart from TRY_CAST: under ANSI rules a cast that fails is an error."""

    class Parser(Spark.Parser):
        STRICT_CAST = True


class Source:
    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.tokens: list[Token] = Reader().tokenize(text)
        except TokenError as error:
            raise SqlError(f"the text cannot be split into words: {error}; is a quote left open?", text, 1, 1) from None

    def statements(self) -> list[Statement]:
        """The statements between semicolons, each with its own tokens; empty ones are skipped."""
        chunks: list[list[Token]] = [[]]
        for token in self.tokens:
            if token.token_type == TokenType.SEMICOLON:
                chunks.append([])
            else:
                chunks[-1].append(token)
        return [Statement(self, chunk) for chunk in chunks if chunk]

    def place(self, offset: int) -> tuple[int, int]:
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


class Statement:
    """One statement of the text."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source, self.tokens = source, tokens

    def parse(self) -> exp.Expr:
        try:
            parsed = Reader().parser().parse(self.tokens, self.source.text)
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            highlight, line = first.get("highlight") or "", first.get("line") or 1
            column = max(1, (first.get("col") or 1) - max(len(highlight), 1) + 1)
            reason = str(first.get("description") or error).rstrip(".")
            near = f" near {highlight!r}" if highlight else ""
            message = f"not readable as SQL{near} ({reason}); check the words before it"
            raise SqlError(message, self.source.text, line, column) from None
        if len(parsed) != 1 or parsed[0] is None:
            self.refuse("an empty statement", "write one", None)
        return parsed[0]

    def between(self, first: int, last: int) -> str:
        """The text from one token to another, both included."""
        return self.source.text[self.tokens[first].start : self.tokens[last].end + 1]

    def fail(self, message: str, node: exp.Expr | str | None) -> NoReturn:
        """Raises SqlError at a node, at the first token that reads as the given word, or at the statement's start."""
        raise SqlError(message, self.source.text, *self._spot(node))

    def refuse(self, what: str, instead: str, node: exp.Expr | str | None) -> NoReturn:
        raise UnsupportedError(f"{what} is not supported; {instead}", self.source.text, *self._spot(node))

    def placed(self, error: SqlError, node: exp.Expr | None) -> SqlError:
        """The same error with a place, if it had none."""
        if error.line is not None:
            return error
        return type(error)(error.reason, self.source.text, *self._spot(node))

    def _spot(self, node: exp.Expr | str | None) -> tuple[int, int]:
        if isinstance(node, str):
            word = node.upper()
            found = next((t for t in self.tokens if t.text.upper() == word), self.tokens[0])
            return self.source.place(found.start)
        offset = None if node is None else offset_of(node)
        return self.source.place(self.tokens[0].start if offset is None else offset)


def offset_of(node: exp.Expr) -> int | None:
    """Where a node's text begins: its own token or, before it, the first below."""
    offsets = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(offsets, default=None)


def closest_first(wanted: str, names: Iterable[str], most: int = 12) -> str:
    """Known names for an error message, those most like the wanted one first."""
    names = list(dict.fromkeys(names))
    close = difflib.get_close_matches(wanted.lower(), [n.lower() for n in names], n=3, cutoff=0.6)
    ranked = sorted(names, key=lambda n: close.index(n.lower()) if n.lower() in close else len(close))
    return ", ".join(ranked[:most]) + (", ..." if len(ranked) > most else "")
