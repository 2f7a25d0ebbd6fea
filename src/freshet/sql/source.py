"""The text a statement came from: its tokens, its parsed form, and errors that point into it.

Every node of a parsed statement either carries the offset of its token or has one below it that does, so an error can
always be placed: at the node's own token, else at the earliest token below it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Container, Iterable
from typing import ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from freshet.errors import SqlError, UnsupportedError
from freshet.sql.calls import BY_NAME
from freshet.sql.extent import Extents

#: Parts of parsed nodes that the parser notes for other dialects and that say nothing about the meaning here.
_NO_MEANING = frozenset(
    {"safe", "typed", "coalesce", "big_int", "ignore_nulls", "_type", "nested", "quoted", "flatten"}
    | {"null_if_pos_overflow"}
)
_FIRST_OR_LAST = (exp.AnyValue, exp.First, exp.FirstValue, exp.Last, exp.LastValue)


def _first_or_last(kind: type[exp.Func]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """FIRST(x, TRUE) is FIRST(x) IGNORE NULLS."""

    def make(args: list[exp.Expr]) -> exp.Expr:
        call = kind.from_arg_list(args[:1])
        if len(args) < 2:
            return call
        if len(args) > 2 or not isinstance(args[1], exp.Boolean):
            return exp.Anonymous(this=kind.sql_name(), expressions=args)  # which nothing is called
        return exp.IgnoreNulls(this=call) if args[1].this else exp.RespectNulls(this=call)

    return make


class _Quantile:
    """PERCENTILE with all of its arguments: the parser's own form drops the third, how often each value counts."""

    @staticmethod
    def from_arg_list(args: list[exp.Expr]) -> exp.Expr:
        made = exp.Quantile.from_arg_list(args[:2])
        made.set("frequency", args[2:])
        return made


_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = "\ufeff"  # how some files begin


class Reader(Spark):
    """Spark's grammar, with CAST kept apart from TRY_CAST: under ANSI rules a cast that fails is an error."""

    class Parser(SparkParser):
        STRICT_CAST = True
        FUNCTION_PARSERS: ClassVar = {
            **SparkParser.FUNCTION_PARSERS,
            "PERCENTILE": lambda self: self._parse_distinct_arg_function(_Quantile),
        }
        FUNCTIONS: ClassVar = {
            **{name: make for name, make in SparkParser.FUNCTIONS.items() if name.lower() not in BY_NAME},
            "EVERY": exp.LogicalAnd.from_arg_list,
            "SOME": exp.LogicalOr.from_arg_list,
            "STD": exp.Stddev.from_arg_list,
            "MEAN": exp.Avg.from_arg_list,
            **{kind.sql_name(): _first_or_last(kind) for kind in _FIRST_OR_LAST},
        }


class Source:
    def __init__(self, text: str) -> None:
        self.text = text
        half = _SURROGATE.search(text)
        if half is not None:
            message = f"U+{ord(half[0]):X} is half of a character, which no text has alone; write the whole character"
            raise SqlError(message, text.encode(errors="replace").decode(), *self.place(half.start()))
        try:
            self.tokens: list[Token] = Reader().tokenize(f" {text[1:]}" if text.startswith(_MARK) else text)
        except TokenError as error:
            place = self.place(_open_quote(text))
            message = "the text cannot be split into words; close the quote or comment that begins here"
            raise SqlError(message, text, *place) from error

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
        self.extents = Extents()

    def parse(self) -> exp.Expr:
        try:
            parsed = Reader().parser().parse(self.tokens, self.source.text)
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            highlight, line = first.get("highlight") or "", first.get("line") or 1
            column = max(1, (first.get("col") or 1) - max(len(highlight), 1) + 1)
            if str(first.get("description")).startswith("Required keyword"):
                message = f"something is missing after {highlight}; complete it"
            else:
                message = f"{highlight or 'this'} does not fit here; check it and the words before it"
            raise SqlError(message, self.source.text, line, column) from None
        if len(parsed) != 1 or parsed[0] is None:
            self.refuse("an empty statement", "write one", None)
        for node in list(parsed[0].find_all(exp.Any, exp.Anonymous, exp.In)):
            _settle(node)
        return parsed[0]

    def between(self, first: int, last: int) -> str:
        """The text from one token to another, both included."""
        return self.source.text[self.tokens[first].start : self.tokens[last].end + 1]

    def fail(self, message: str, node: exp.Expr | str | None) -> NoReturn:
        """Raises SqlError at a node, at the first token that reads as the given word, or at the statement's start."""
        raise SqlError(message, self.source.text, *self._spot(node))

    def refuse(self, what: str, instead: str, node: exp.Expr | str | None) -> NoReturn:
        raise UnsupportedError(f"{what} is not supported; {instead}", self.source.text, *self._spot(node))

    def unknown(self, written: str) -> UnsupportedError:
        reason = f"{written} is not supported in some part; rewrite it in plainer SQL"
        return UnsupportedError(reason, self.source.text, *self._spot(None))

    def only(self, node: exp.Expr, known: Container[str]) -> None:
        """Refuses a node that says more than the parts the binder reads: nothing written may be silently ignored."""
        for slot, value in node.args.items():
            if value and slot not in known and slot not in _NO_MEANING:
                part = slot.strip("_").upper()
                self.refuse(f"{part} in {node.sql(dialect='spark')}", "use the plain form without it", node)

    def placed(self, error: SqlError, node: exp.Expr | None) -> SqlError:
        """The same error with a place, if it had none."""
        if error.line is not None:
            return error
        return type(error)(error.reason, self.source.text, *self._spot(node))

    def _spot(self, node: exp.Expr | str | None) -> tuple[int, int]:
        if isinstance(node, str):
            word = node.upper()
            found = next((t for t in self.tokens if t.text.upper().split()[:1] == [word]), self.tokens[0])
            return self.source.place(found.start)
        if node is None:
            return self.source.place(self.tokens[0].start)
        offset = offset_of(node)
        if offset is None:
            return self._spot(re.findall(r"\w+|$", node.sql(dialect="spark"))[0])
        opening = "EXISTS" if isinstance(node, exp.Exists) else "SELECT" if isinstance(node, exp.Query) else None
        if opening:  # its first word carries no place, but stands right before what does
            before = (t.start for t in reversed(self.tokens) if t.start < offset and t.text.upper() == opening)
            offset = next(before, offset)
        elif isinstance(node, exp.Func) and "start" not in node.meta:
            at = next((i for i, t in enumerate(self.tokens) if t.start == offset), 0)
            if at > 1 and self.tokens[at - 1].token_type == TokenType.L_PAREN:  # its name stands before that
                offset = self.tokens[at - 2].start
        return self.source.place(offset)


def _settle(node: exp.Expr) -> None:
    """What reads like something else."""
    inside = node.expressions
    if isinstance(node, exp.Any):  # ANY (x) beside no comparison is the aggregate
        if isinstance(node.this, exp.Paren) and not isinstance(node.parent, exp.Binary):
            node.replace(exp.LogicalOr(this=node.this.this))
    elif len(inside) == 1 and isinstance(inside[0], (exp.Query, exp.Values)):
        if isinstance(node, exp.Anonymous) and node.name.upper() in ("ALL", "ANY", "SOME"):  # ALL ((SELECT ...))
            query = exp.Subquery(this=inside[0]) if isinstance(inside[0], exp.Values) else inside[0]
            node.replace((exp.All if node.name.upper() == "ALL" else exp.Any)(this=query))
        elif isinstance(node, exp.In) and isinstance(inside[0], exp.Values):  # IN (VALUES ...)
            node.set("query", exp.Subquery(this=inside[0]))
            node.set("expressions", None)


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


def _open_quote(text: str) -> int:
    """Where the quote or comment begins that never ends."""
    closed = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[^'\"`/-]+|[/-]", re.S)
    at = 0
    while at < len(text):
        match = closed.match(text, at)
        if match is None or (match.group() == "/" and text.startswith("/*", at)):
            return at
        at = match.end()
    return 0
