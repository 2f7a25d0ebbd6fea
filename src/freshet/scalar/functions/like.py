"""LIKE and ILIKE. ILIKE is LIKE between the lower-case forms of text and pattern, as in Spark.

A literal pattern is parsed once, and becomes an Arrow call that compares or searches for a plain text if possible;
`state.texts` runs all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from freshet.errors import EvaluationError, SqlError, brief
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.bounds import STEPS_A_BYTE, Texts, known, most_steps, too_many_steps
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.registry import Function, Step, declare, refuse, resolve
from freshet.scalar.functions.rows import every, longest, spread, text_or_null
from freshet.scalar.functions.text_calls import as_text, literal, whole
from freshet.scalar.types import BOOLEAN
from freshet.state import texts
from freshet.state.arrays import Bools, Int64s, values_of
from freshet.state.texts import ANY, MANY


def _resolve_like(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 2 <= len(args) <= 3:
        raise refuse(name, args)
    args = tuple(fold(as_text(a)) for a in args)
    if len(args) == 3 and not (
        isinstance(args[2], Literal) and isinstance(args[2].value, str) and len(args[2].value) == 1
    ):
        raise refuse(name, args)
    pattern = literal(args[1])
    if pattern is not None:
        try:
            _tokens(pattern, _escape(args))
        except EvaluationError as e:
            raise SqlError(e.reason) from None
    return Call(BOOLEAN, name, args)


def _escape(args: tuple[Expression, ...]) -> str:
    return str(literal(args[2])) if len(args) == 3 else "\\"


def _resolve_ilike(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 2 <= len(args) <= 3:
        raise refuse(name, args)
    lowered = (fold(resolve("lower", (as_text(a),))) for a in args[:2])
    return resolve("like", (*lowered, *args[2:]))


def _tokens(pattern: str, escape: str) -> list[int]:
    """Code points, ANY for `_` and MANY for `%`. An escape may precede only `_`, `%` and itself."""
    tokens: list[int] = []
    rest = iter(pattern)
    for c in rest:
        if c == escape:
            follower = next(rest, None)
            if follower is None or follower not in ("_", "%", escape):
                what = "nothing" if follower is None else repr(follower)
                raise EvaluationError(f"LIKE pattern {brief(pattern)} escapes {what}; escape only _, % or {escape!r}")
            tokens.append(ord(follower))
        else:
            tokens.append(ANY if c == "_" else MANY if c == "%" else ord(c))
    return tokens


def _plain(tokens: list[int]) -> str | None:
    return None if ANY in tokens or MANY in tokens else "".join(map(chr, tokens))


def _matcher(tokens: list[int]) -> Callable[[Any], Any] | None:
    """The Arrow call that tests a pattern, if it is a comparison with a plain text or a search for one."""
    whole = _plain(tokens)
    if whole is not None:
        return lambda text: pc.equal(text, whole)
    starts, ends = tokens[0] == MANY, tokens[-1] == MANY
    inner = _plain(tokens[1 if starts else 0 : -1 if ends else None])
    if inner is not None and starts and ends:
        return lambda text: pc.match_substring(text, inner)
    if inner is not None:
        return lambda text: pc.ends_with(text, inner) if starts else pc.starts_with(text, inner)
    return None


def _few_steps(call: Call) -> bool:
    """Whether the pattern is a literal, so that its escapes were checked, and short, because each of its tokens may be
    compared with each character."""
    pattern = call.args[1]
    return isinstance(pattern, Literal) and len(str(pattern.value)) < STEPS_A_BYTE


def _like(call: Call) -> Step:
    escape, pattern = _escape(call.args), literal(call.args[1])
    if pattern is not None:
        tokens = _tokens(pattern, escape)
        plain = _matcher(tokens)
        if plain is not None:
            return whole(BOOLEAN, plain)
        begins, joined = np.array([0, len(tokens)]), np.array(tokens, np.int32)
        return lambda a, *_: _run(a, np.zeros(len(a), np.int64), begins, joined, a.valid, (a,))

    def step(a: Column, b: Column, *_: Column) -> Column:
        """Parses each distinct pattern once."""
        rows, valid = longest(a, b), every((a, b))
        codes = text_or_null(spread(b, rows), valid).dictionary_encode()
        which = values_of(codes.indices.fill_null(0)).astype(np.int64)
        parts = [np.empty(0, np.int32)]
        for code, one in enumerate(codes.dictionary.to_pylist()):
            try:
                parts.append(np.array(_tokens(one, escape), np.int32))
            except EvaluationError as e:
                first = int(np.argmax(values_of(codes.indices.fill_null(-1)) == code))
                raise EvaluationError(e.reason, first) from None
        return _run(a, which, np.cumsum([len(p) for p in parts]), np.concatenate(parts), valid, (a, b))

    return step


def _run(a: Column, which: Int64s, begins: Int64s, tokens: Any, valid: Bools | None, args: Sequence[Column]) -> Column:
    rows, text = len(which), Texts(a)
    out: Bools = np.empty(rows, np.bool_)
    steps = most_steps(args, rows)
    bad = texts.like(*text.parts, known(valid, rows), which, begins, tokens, steps, out)
    if bad >= 0:
        raise too_many_steps("like", args, rows, bad, "use a shorter pattern, or compare shorter texts")
    return Column(BOOLEAN, out, valid)


def _written(call: Call, args: Sequence[str]) -> str:
    text, pattern, *escape = args
    return f"({text} LIKE {pattern}{''.join(f' ESCAPE {e}' for e in escape)})"


def _duckdb(call: Call, args: Sequence[str]) -> str | None:
    """Patterns that mean the same in all dialects: no escapes, and nothing that depends on what a character is."""
    text, pattern = call.args[0], call.args[1]
    if len(args) != 2 or text.type.name != "STRING" or not isinstance(pattern, Literal):
        return None
    plain = isinstance(pattern.value, str) and not set(pattern.value) & set("\\_")
    return f"({args[0]} LIKE {args[1]})" if plain else None


declare(
    Function(
        "like",
        "text, a pattern, and optionally a literal escape character",
        _resolve_like,
        _like,
        operator=exp.Like,
        sign="LIKE",
        written=_written,
        total=_few_steps,
        sized=True,
        duckdb=_duckdb,
    ),
    Function("ilike", "text, a pattern, and optionally a literal escape character", _resolve_ilike, operator=exp.ILike),
)
