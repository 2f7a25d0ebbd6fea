"""The text of a statement: its tokens, its parsed form, and errors that point into it.

Every node of a parsed statement either carries the offset of its token or has one below it that does, so an error can
always be placed: at the node's own token, else at the earliest token below it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from freshet.errors import SqlError, UnsupportedError, brief
from freshet.logical.extent import Extents
from freshet.scalar.expression import Literal
from freshet.scalar.functions.python import PythonFunction
from freshet.sql.calls import BY_NAME
from freshet.sql.parameters import ParameterValues, check_given, value_for
from freshet.sql.words import misplaced

#: Parts of parsed nodes that the parser records for other dialects and that do not affect the meaning here.
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
            return exp.Anonymous(this=kind.sql_name(), expressions=args)  # a name that no function has
        return exp.IgnoreNulls(this=call) if args[1].this else exp.RespectNulls(this=call)

    return make


class _Quantile:
    """PERCENTILE with all of its arguments: the parser's own node drops the third, the frequency of each value."""

    @staticmethod
    def from_arg_list(args: list[exp.Expr]) -> exp.Expr:
        made = exp.Quantile.from_arg_list(args[:2])
        made.set("frequency", args[2:])
        return made


#: Parts of parsed nodes: the keywords they are written with, and an alternative that works.
_PARTS = {
    "by_name": ("UNION BY NAME", "name the columns in the same order on both sides"),
    "on": ("BY NAME ON", "name the columns in the same order on both sides"),
    "limit_options": ("LIMIT with PERCENT or TIES", "write a number of rows"),
    "sample": ("TABLESAMPLE", "filter with WHERE on a column"),
    "when": ("a time after a table's name", "leave it out: a view always reads the current tables"),
    "version": ("a version after a table's name", "leave it out: a view always reads the current tables"),
    "partition": ("PARTITION", "name the table alone"),
    "catalog": ("a name of four parts", "qualify a column with its table or alias only"),
    "tables": ("DELETE without FROM", "write DELETE FROM and the table"),
    "from_": ("FROM in this place", "read other tables in a subquery"),
    "using": ("USING in this place", "read other tables in a subquery"),
    "order": ("ORDER BY in this place", "leave it out"),
    "limit": ("LIMIT in this place", "leave it out"),
    "having": ("HAVING in this place", "filter with WHERE, or in a FROM subquery"),
    "returning": ("RETURNING", "read the transaction's deltas instead"),
    "match": ("MATCH_RECOGNIZE", "use window functions"),
}

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_HEX = re.compile(r"(?i)\bx'[^']*[^'0-9a-f][^']*'|\bx\"[^\"]*[^\"0-9a-f][^\"]*\"")
_MARK = "\ufeff"  # a byte order mark, with which some files begin


#: What the name of a table may follow.
_BEFORE_NAMES = (TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.DOT)

LEVELS = "levels"  # how many iterations of a recursive query may have rows, where that is written
PREDICATE = "predicate"  # marks a condition without parentheses


class Reader(Spark):
    """Spark's grammar, with CAST distinguished from TRY_CAST: under ANSI rules a failing cast is an error."""

    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar = set()  # what follows is words, also after SHOW and EXPLAIN
        HEX_STRINGS: ClassVar = [(mark + quote, quote) for mark in "Xx" for quote in "'\""]

    class Parser(SparkParser):
        STRICT_CAST = True
        COLON_IS_VARIANT_EXTRACT = True  # v:a.b[0]
        UNARY_PARSERS: ClassVar = {
            **SparkParser.UNARY_PARSERS,
            TokenType.PLUS: lambda self: exp.Anonymous(this="positive", expressions=[self._parse_unary()]),
        }
        #: A `?` records its position, which determines the parameter value it takes.
        PLACEHOLDER_PARSERS: ClassVar = {
            **SparkParser.PLACEHOLDER_PARSERS,
            TokenType.PLACEHOLDER: lambda self: exp.Placeholder(this=exp.Literal.number(self._prev.start)),
        }
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

        def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
            """The name of a query of WITH may be followed by MAX RECURSION LEVEL and a number."""
            alias = super()._parse_table_alias(alias_tokens)
            named_by_with = alias_tokens is self.ID_VAR_TOKENS
            if alias is not None and named_by_with and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
                number = self._parse_number()
                if number is None or not number.is_int:
                    self.raise_error("Expected a number of levels")
                else:
                    alias.meta[LEVELS] = int(number.name)
            return alias

        #: `||` has the precedence of + and -.
        TERM: ClassVar = {**SparkParser.TERM, TokenType.DPIPE: exp.DPipe}

        def _parse_bitwise(self) -> exp.Expr | None:
            """`|` has the lowest precedence, then `^`, then `&`, then the shifts; the parser itself treats them as
            equal."""
            return self._parse_bits((TokenType.PIPE, TokenType.CARET, TokenType.AMP))

        def _parse_bits(self, signs: Sequence[TokenType]) -> exp.Expr | None:
            if not signs:
                return self._parse_shift()
            this = self._parse_bits(signs[1:])
            while self._match(signs[0]):
                other = self._parse_bits(signs[1:])
                this = self.expression(self.BITWISE[signs[0]](this=this, expression=other))
            return this

        def _parse_shift(self) -> exp.Expr | None:
            this = self._parse_term()
            while True:
                if self._match_pair(TokenType.LT, TokenType.LT):
                    this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
                elif not self._match_pair(TokenType.GT, TokenType.GT):
                    return this
                elif self._match(TokenType.GT):
                    sides = [this, self._parse_term()]
                    this = self.expression(exp.Anonymous(this="shiftrightunsigned", expressions=sides))
                else:
                    this = self.expression(exp.BitwiseRightShift(this=this, expression=self._parse_term()))

        def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
            """Marks conditions written with IN, LIKE or BETWEEN without parentheses: Spark applies them to everything
            on their left, up to AND, OR and NOT."""
            this = this or self._parse_bitwise()
            before = self._index
            parsed = super()._parse_range(this, parse_is)
            if parsed is not None and self._index != before:
                parsed.meta[PREDICATE] = True
            return parsed

        def _warn_unsupported(self) -> None:
            """Unsupported syntax is refused, not logged."""

    class Generator(SparkGenerator):
        #: SELECT and WITHIN GROUP are written as they were parsed: sqlglot's rewrite of QUALIFY for Spark does not
        #: terminate if an alias is the name of its own column, and percentiles would become another function.
        TRANSFORMS: ClassVar = {
            kind: make for kind, make in SparkGenerator.TRANSFORMS.items() if kind not in (exp.Select, exp.WithinGroup)
        }

        def placeholder_sql(self, expression: exp.Placeholder) -> str:
            return "?" if isinstance(expression.this, exp.Literal) else super().placeholder_sql(expression)


class SqlText:
    """A text, and the values of its parameters."""

    def __init__(self, text: str, given: ParameterValues | None = None) -> None:
        self.text, self.given = text, given
        if not isinstance(text, str):
            raise SqlError(f"SQL is a text, not {brief(text)}; give a str")
        half = _SURROGATE.search(text)
        if half is not None:
            message = f"U+{ord(half[0]):X} is a lone surrogate, half of a character; write the whole character"
            raise SqlError(message, text.encode(errors="replace").decode(), *self.place(half.start()))
        try:
            self.tokens: list[Token] = Reader().tokenize(f" {text[1:]}" if text.startswith(_MARK) else text)
        except TokenError as error:
            wrong = _NOT_HEX.search(text)
            place = self.place(_open_quote(text) or (wrong.start() if wrong else 0))
            message = "the text cannot be tokenized; close the quote or comment that begins here"
            if wrong and not _open_quote(text):
                message = f"{wrong[0]} has characters other than 0 to 9 and A to F; write hexadecimal digits"
            raise SqlError(message, text, *place) from error
        for token, following in zip(self.tokens, self.tokens[1:], strict=False):
            if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
                token.token_type = TokenType.VAR  # WINDOW(ts, '5 minutes'), not the clause
        self.questions = [t.start for t in self.tokens if t.token_type == TokenType.PLACEHOLDER]
        if given is not None:
            check_given(given, len(self.questions), self._names())

    def _names(self) -> set[str]:
        """The named parameters (`:name`) of the text."""
        pairs = zip(self.tokens, self.tokens[1:], strict=False)
        return {b.text for a, b in pairs if a.token_type == TokenType.COLON and a.end + 1 == b.start}

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

    def __init__(self, source: SqlText, tokens: list[Token]) -> None:
        self.source, self.tokens = source, tokens
        self.extents = Extents()
        self.once = False  # whether it is a one-time query, in which LIMIT without ORDER BY may return any rows
        self.functions: Mapping[str, PythonFunction] = {}
        self.now: int | None = None  # what NOW() is, where the statement runs once; else time passes
        self.varies = False  # whether it may be bound to another query at another time
        self.final = _ends_final(tokens)

    def parse(self) -> exp.Expr:
        wrong = misplaced(self.tokens)
        if wrong is not None:
            raise SqlError(wrong[1], self.source.text, *self.source.place(wrong[0].start))
        for token in self.tokens:
            if token.token_type == TokenType.HEX_STRING and self.source.text[token.start] == "0":
                message = f"0x{token.text} is not a number in Spark; write it in decimal, or bytes as X'{token.text}'"
                raise SqlError(message, self.source.text, *self.source.place(token.start))
        try:
            parsed = Reader().parser().parse(self.tokens[:-2] if self.final else self.tokens, self.source.text)
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            highlight, line = first.get("highlight") or "", first.get("line") or 1
            column = max(1, (first.get("col") or 1) - max(len(highlight), 1) + 1)
            if str(first.get("description")).startswith("Required keyword"):
                message = "an argument is missing" if highlight == ")" else f"something is missing after {highlight}"
                message += "; complete it"
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

    def parameter(self, node: exp.Expr) -> Literal:
        """The value given for a `?` or a `:name`."""
        place = node.this
        try:
            if isinstance(place, exp.Literal):
                return value_for(self.source.given, "", self.source.questions.index(int(place.name)))
            return value_for(self.source.given, str(place), 0)
        except SqlError as error:
            spot = int(place.name) if isinstance(place, exp.Literal) else self._named(str(place))
            raise SqlError(error.reason, self.source.text, *self.source.place(spot)) from None

    def _named(self, name: str) -> int:
        return next((t.start - 1 for t in self.tokens if t.text == name), self.tokens[0].start)

    @property
    def has_parameters(self) -> bool:
        first, last = self.tokens[0].start, self.tokens[-1].start
        return any(first <= at <= last for at in self.source.questions) or any(
            a.token_type == TokenType.COLON and a.end + 1 == b.start
            for a, b in zip(self.tokens, self.tokens[1:], strict=False)
        )

    def fail(self, message: str, node: exp.Expr | str | None) -> NoReturn:
        """Raises SqlError at a node, at the first token that reads as the given word, or at the statement's start."""
        raise SqlError(message, self.source.text, *self._spot(node))

    def refuse(self, what: str, instead: str, node: exp.Expr | str | None) -> NoReturn:
        raise UnsupportedError(f"{what} is not supported; {instead}", self.source.text, *self._spot(node))

    def only(self, node: exp.Expr, known: Container[str]) -> None:
        """Refuses a node with parts that the binder does not read: nothing in the text may be silently ignored."""
        for slot, value in node.args.items():
            if value and slot not in known and slot not in _NO_MEANING:
                if slot in _PARTS:
                    self.refuse(*_PARTS[slot], node)
                if isinstance(node, exp.Func):
                    self.refuse(f"{sql_of(node)} with all of these arguments", "leave out the last", node)
                self.refuse(f"{sql_of(node)}, written like this,", "use its plain form", node)

    def placed(self, error: SqlError, node: exp.Expr | None) -> SqlError:
        """The same error with a position, if it had none."""
        if error.line is not None:
            return error
        return type(error)(error.reason, self.source.text, *self._spot(node))

    def spot(self, node: exp.Expr) -> tuple[str, int, int]:
        """The position of a node, for errors raised after binding: the text, line and column."""
        return self.source.text, *self._spot(node)

    def _spot(self, node: exp.Expr | str | None) -> tuple[int, int]:
        if isinstance(node, str):
            word = node.upper()
            token = next((t for t in self.tokens if t.text.upper().split()[:1] == [word]), self.tokens[0])
            return self.source.place(token.start)
        if node is None:
            return self.source.place(self.tokens[0].start)
        offset = offset_of(node)
        if offset is None:
            return self._spot(str(re.findall(r"\w+|$", sql_of(node))[0]))
        opening = "EXISTS" if isinstance(node, exp.Exists) else "SELECT" if isinstance(node, exp.Query) else None
        if opening:  # its first word has no position, but comes right before a token that does
            before = (t.start for t in reversed(self.tokens) if t.start < offset and t.text.upper() == opening)
            offset = next(before, offset)
        elif isinstance(node, exp.Func) and "start" not in node.meta:
            at = next((i for i, t in enumerate(self.tokens) if t.start == offset), 0)
            if at > 1 and self.tokens[at - 1].token_type == TokenType.L_PAREN:  # its name comes before that
                offset = self.tokens[at - 2].start
        return self.source.place(offset)


def _ends_final(tokens: Sequence[Token]) -> bool:
    """Whether a statement ends with EMIT FINAL, which is not a table and its alias."""
    words = [token.text.upper() for token in tokens[-2:]]
    return words == ["EMIT", "FINAL"] and len(tokens) > 2 and tokens[-3].token_type not in _BEFORE_NAMES


def _settle(node: exp.Expr) -> None:
    """Corrects nodes that the parser confuses with others."""
    inside = node.expressions
    if isinstance(node, exp.Any):  # ANY (x) outside a comparison is the aggregate
        if isinstance(node.this, exp.Paren) and not isinstance(node.parent, exp.Binary):
            node.replace(exp.LogicalOr(this=node.this.this))
    elif len(inside) == 1 and isinstance(inside[0], (exp.Query, exp.Values)):
        if isinstance(node, exp.Anonymous) and node.name.upper() in ("ALL", "ANY", "SOME"):  # ALL ((SELECT ...))
            query = exp.Subquery(this=inside[0]) if isinstance(inside[0], exp.Values) else inside[0]
            node.replace((exp.All if node.name.upper() == "ALL" else exp.Any)(this=query))
        elif isinstance(node, exp.In) and isinstance(inside[0], exp.Values):  # IN (VALUES ...)
            node.set("query", exp.Subquery(this=inside[0]))
            node.set("expressions", None)


def sql_of(node: exp.Expr) -> str:
    """A part of a statement in SQL, on one line. Of a call without all of its arguments, for which sqlglot's generator
    may fail in any of these ways, only the kind."""
    try:
        return node.sql(dialect=Reader, comments=False, unsupported_level=ErrorLevel.IGNORE)
    except (AttributeError, KeyError, TypeError):
        return node.key.upper()


def offset_of(node: exp.Expr) -> int | None:
    """The offset at which a node's text begins: its own token, or an earlier one below it."""
    offsets = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(offsets, default=None)


def closest_first(wanted: str, names: Iterable[str], most: int = 12) -> str:
    """Known names for an error message, those most similar to the given one first."""
    names = list(dict.fromkeys(names))
    close = difflib.get_close_matches(wanted.lower(), [n.lower() for n in names], n=3, cutoff=0.6)
    ranked = sorted(names, key=lambda n: close.index(n.lower()) if n.lower() in close else len(close))
    return ", ".join(ranked[:most]) + (", ..." if len(ranked) > most else "")


def _open_quote(text: str) -> int:
    """The offset of a quote or comment that is never closed."""
    closed = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[^'\"`/-]+|[/-]", re.S)
    at = 0
    while at < len(text):
        match = closed.match(text, at)
        if match is None or (match.group() == "/" and text.startswith("/*", at)):
            return at
        at = match.end()
    return 0
