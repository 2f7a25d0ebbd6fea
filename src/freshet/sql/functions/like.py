"""LIKE and ILIKE. ILIKE is LIKE between the lower-case forms of text and pattern, as in Spark.

A literal pattern is taken apart once, and becomes the simplest Arrow call that tests it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc

from freshet.column import Bools, Column
from freshet.errors import EvaluationError, SqlError
from freshet.sql.expression import Call, Expression, Literal
from freshet.sql.functions.compiled import fold
from freshet.sql.functions.registry import TOTAL_WHEN, Step, refuse, resolve, resolves, strict
from freshet.sql.functions.rows import every, flags, longest, text_of
from freshet.sql.functions.text_calls import as_text, literal, whole
from freshet.types import BOOLEAN

_ANY, _MANY = object(), object()


@resolves("like", takes="text, a pattern, and optionally a literal escape character")
def _resolve_like(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 2 <= len(args) <= 3 or any(a.type.name not in ("STRING", "VOID") for a in args):
        raise refuse(name, args)
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
    return Call(BOOLEAN, name, tuple(as_text(a) for a in args))


def _escape(args: tuple[Expression, ...]) -> str:
    return str(literal(args[2])) if len(args) == 3 else "\\"


@resolves("ilike", takes="text, a pattern, and optionally a literal escape character")
def _resolve_ilike(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 2 <= len(args) <= 3 or any(a.type.name not in ("STRING", "VOID") for a in args):
        raise refuse(name, args)
    lowered = (fold(resolve("lower", (a,))) for a in args[:2])
    return resolve("like", (*lowered, *args[2:]))


def _tokens(pattern: str, escape: str) -> list[Any]:
    """Characters as they are, _ANY for `_` and _MANY for `%`. An escape may stand before `_`, `%` and itself only."""
    tokens: list[Any] = []
    rest = iter(pattern)
    for c in rest:
        if c == escape:
            follower = next(rest, None)
            if follower is None or follower not in ("_", "%", escape):
                what = "nothing" if follower is None else repr(follower)
                raise EvaluationError(f"LIKE pattern {pattern!r} escapes {what}; escape only _, % or {escape!r}", 0)
            tokens.append(follower)
        else:
            tokens.append(_ANY if c == "_" else _MANY if c == "%" else c)
    return tokens


def _plain(tokens: list[Any]) -> str | None:
    return None if _ANY in tokens or _MANY in tokens else "".join(tokens)


def matcher(pattern: str, escape: str) -> Callable[[Any], Any]:
    """The Arrow call that tests a pattern: a plain comparison or search where the pattern allows it."""
    tokens = _tokens(pattern, escape)
    whole = _plain(tokens)
    if whole is not None:
        return lambda text: pc.equal(text, whole)
    starts, ends = tokens[0] is _MANY, tokens[-1] is _MANY
    inner = _plain(tokens[1 if starts else 0 : -1 if ends else None])
    if inner is not None and starts and ends:
        return lambda text: pc.match_substring(text, inner)
    if inner is not None:
        return lambda text: pc.ends_with(text, inner) if starts else pc.starts_with(text, inner)
    regex = "".join("." if t is _ANY else ".*" if t is _MANY else re.escape(t) for t in tokens)
    return lambda text: pc.match_substring_regex(text, rf"(?s)\A(?:{regex})\z")


TOTAL_WHEN["like"] = lambda call: isinstance(call.args[1], Literal)  # its escapes were checked


@strict("like")
def _like(call: Call) -> Step:
    escape = _escape(call.args)
    pattern = literal(call.args[1])
    if pattern is not None:
        return whole(BOOLEAN, matcher(pattern, escape))

    def step(a: Column, b: Column, *_: Column) -> Column:
        """Each distinct pattern is tested once, on its own rows."""
        rows, valid = longest(a, b), every((a, b))
        text, patterns = text_of(a), text_of(b)
        if len(patterns) != rows:
            patterns = patterns.take(np.zeros(rows, np.int64))
        if len(text) != rows:
            text = text.take(np.zeros(rows, np.int64))
        codes = patterns.dictionary_encode()
        which = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        data: Bools = np.zeros(rows, np.bool_)
        for code, one in enumerate(codes.dictionary.to_pylist()):
            mine = np.flatnonzero(which == code if valid is None else (which == code) & valid)
            if not len(mine):
                continue
            try:
                data[mine] = flags(matcher(one, escape)(text.take(mine)))
            except EvaluationError as e:
                raise EvaluationError(e.reason, int(mine[0])) from None
        return Column(BOOLEAN, data, valid)

    return step
