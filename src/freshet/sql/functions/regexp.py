"""RLIKE and the REGEXP functions. A pattern is a literal that `pattern` can read; see there for what that is.

Whether a text matches, and replacing what is never empty, is RE2's work, a column at a time. Texts that end in a line
end, of which RE2 knows nothing where the pattern has `$`, and all else are Python's, once for each distinct text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.column import Column
from freshet.errors import SqlError, UnsupportedError
from freshet.sql.expression import Call, Expression, Literal
from freshet.sql.functions.nullability import MAY_BE_NULL
from freshet.sql.functions.pattern import LINE_ENDS, Pattern, read
from freshet.sql.functions.registry import Step, refuse, resolves, strict
from freshet.sql.functions.rows import flags, strings, text_of
from freshet.sql.functions.text_calls import as_text, in_python, literal
from freshet.types import BOOLEAN, INT, STRING, Type

MAY_BE_NULL.add("regexp_substr")
_read = lru_cache(maxsize=1024)(read)


def _resolves(type: Type, takes: str, *names: str) -> None:
    canonical = names[0]

    @resolves(*names, takes=takes)
    def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
        if len(args) != 2:
            raise refuse(name, args)
        return _call(type, canonical, name, args)


def _call(type: Type, canonical: str, name: str, args: tuple[Expression, ...]) -> Expression:
    """With the pattern read, so that what it has wrong is an error of the query."""
    if args[1].type.name not in ("STRING", "VOID"):
        raise refuse(name, args)
    pattern = args[1]
    if not isinstance(pattern, Literal):
        raise UnsupportedError(
            f"{name.upper()} with a pattern that is no literal is not supported; write the pattern out"
        )
    if pattern.value is not None:
        _read(str(pattern.value))
    return Call(type, canonical, (as_text(args[0]), as_text(pattern), *args[2:]))


_resolves(BOOLEAN, "text and a pattern", "rlike", "regexp", "regexp_like")
_resolves(STRING, "text and a pattern", "regexp_substr")
_resolves(INT, "text and a pattern", "regexp_count")
_resolves(INT, "text and a pattern", "regexp_instr")


@resolves("regexp_extract", takes="text, a pattern, and optionally the number of a group")
def _resolve_extract(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 2 <= len(args) <= 3:
        raise refuse(name, args)
    group = args[2] if len(args) == 3 else Literal(INT, 1)
    if not isinstance(group, Literal) or not (group.type.is_integer or group.type.name == "VOID"):
        raise UnsupportedError(f"{name.upper()} with a group that is no literal number is not supported; write it out")
    call = _call(STRING, name, name, (args[0], args[1], group))
    pattern, number = literal(args[1]), group.value
    if pattern is not None and number is not None:
        groups = _read(pattern).groups
        if not 0 <= int(number) <= groups:
            raise SqlError(
                f"no group {number} in the regular expression {pattern!r}, which has {groups}; 0 is all of it"
            )
    return call


@resolves("regexp_replace", takes="text, a pattern, and what to write instead")
def _resolve_replace(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) == 4:
        if literal(args[3]) != 1:
            what = "REGEXP_REPLACE from a position other than 1 is not supported"
            raise UnsupportedError(f"{what}; replace in SUBSTRING(text, position)")
        args = args[:3]
    if len(args) != 3 or args[2].type.name not in ("STRING", "VOID"):
        raise refuse(name, args)
    if not isinstance(args[2], Literal):
        raise UnsupportedError("REGEXP_REPLACE by what is no literal is not supported; write the replacement out")
    call = _call(STRING, name, name, args)
    pattern, replacement = literal(args[1]), literal(args[2])
    if pattern is not None and replacement is not None:
        _pieces(replacement, _read(pattern).groups)
    return call


def _pieces(replacement: str, groups: int) -> list[str | int]:
    """Texts and numbers of groups: $1 is a group, and of $12 the 2 is text where there are not twelve; \\ takes the
    next character as it is."""
    pieces: list[str | int] = []
    at = 0
    while at < len(replacement):
        character, following = replacement[at], replacement[at + 1 : at + 2]
        if character == "\\":
            if not following:
                raise SqlError(f"the replacement {replacement!r} ends in \\; write \\\\\\\\ for the character")
            pieces.append(following)
            at += 2
        elif character == "$":
            if following == "{":
                raise UnsupportedError(f"${{name}} in {replacement!r} is not supported; write the number of the group")
            if not (following.isascii() and following.isdigit()) or int(following) > groups:
                what = f"the replacement {replacement!r} names a group by $ that does not exist"
                raise SqlError(f"{what}; write \\\\$ for the character")
            number, at = int(following), at + 2
            while replacement[at : at + 1].isdigit() and replacement[at].isascii():
                if number * 10 + int(replacement[at]) > groups:
                    break
                number, at = number * 10 + int(replacement[at]), at + 1
            pieces.append(number)
        else:
            pieces.append(character)
            at += 1
    return pieces


# Computing ------------------------------------------------------------------------------------------------------


def _pattern(call: Call) -> Pattern:
    return _read(str(literal(call.args[1])))


def _matches(pattern: Pattern, text: str) -> Iterator[re.Match[str]]:
    """All matches in Java's order: after an empty one the search goes on a character further, even where something
    could match in its place. (Within a character beyond U+FFFF too, which Java tears apart; here it stays whole.)"""
    at = 0
    while at <= len(text) and (found := pattern.python.search(text, at)) is not None:
        yield found
        at = found.end() + (found.end() == found.start())


def _fits_re2(pattern: Pattern) -> bool:
    """Whether RE2 takes the pattern: one that becomes too large does not."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern.re2)
    except pa.ArrowInvalid:
        return False
    return True


def _by_re2(pattern: Pattern, arrow: Callable[[Any], Any], type: Type, python: Callable[[str], Any]) -> Step:
    """Arrow's call, but Python's on texts that end in a line end where that makes a difference."""
    general = in_python(type, lambda text, *_: python(text))
    if not _fits_re2(pattern):
        return general
    ends = "[" + "".join(f"\\x{{{ord(c):X}}}" for c in LINE_ENDS) + r"]\z"

    def step(a: Column, *rest: Column) -> Column:
        text = text_of(a)
        made = arrow(text)
        if pattern.has_dollar:
            ended = np.flatnonzero(flags(pc.match_substring_regex(text, ends)))
            if len(ended):
                anew = [python(t) for t in text.take(pa.array(ended)).to_pylist()]
                mask = np.zeros(len(text), np.bool_)
                mask[ended] = True
                made = pc.replace_with_mask(made, pa.array(mask), pa.array(anew, made.type))
        return Column(type, strings(made) if type.name == "STRING" else flags(made), a.valid)

    return step


@strict("rlike", total=True)
def _rlike(call: Call) -> Step:
    pattern = _pattern(call)
    found = pattern.python.search
    return _by_re2(
        pattern, lambda text: pc.match_substring_regex(text, pattern.re2), BOOLEAN, lambda text: found(text) is not None
    )


@strict("regexp_replace", total=True)
def _replace(call: Call) -> Step:
    """A pattern that may be empty is Python's: RE2 finds no empty match right after another."""
    pattern = _pattern(call)
    pieces = _pieces(str(literal(call.args[2])), pattern.groups)

    def replace(text: str) -> str:
        made, last = [], 0
        for m in _matches(pattern, text):
            made += [text[last : m.start()], *(p if isinstance(p, str) else m[p] or "" for p in pieces)]
            last = m.end()
        return "".join(made) + text[last:]

    if pattern.may_be_empty or any(isinstance(p, int) and p > 9 for p in pieces):
        return in_python(STRING, lambda text, *_: replace(text))
    written = "".join(f"\\{p}" if isinstance(p, int) else p.replace("\\", "\\\\") for p in pieces)
    return _by_re2(pattern, lambda text: pc.replace_substring_regex(text, pattern.re2, written), STRING, replace)


@strict("regexp_extract", total=True)
def _extract(call: Call) -> Step:
    """Empty where nothing matches, or where the group is in a branch that was not taken."""
    found, group = _pattern(call).python.search, int(literal(call.args[2]))
    return in_python(STRING, lambda text, *_: "" if (m := found(text)) is None else m[group] or "")


@strict("regexp_substr", total=True)
def _substr(call: Call) -> Step:
    """NULL where nothing matches, and where what matches is empty."""
    found = _pattern(call).python.search
    return in_python(STRING, lambda text, *_: None if (m := found(text)) is None else m[0] or None)


@strict("regexp_count", total=True)
def _count(call: Call) -> Step:
    pattern = _pattern(call)
    return in_python(INT, lambda text, *_: sum(1 for _ in _matches(pattern, text)))


@strict("regexp_instr", total=True)
def _instr(call: Call) -> Step:
    found = _pattern(call).python.search
    return in_python(INT, lambda text, *_: 0 if (m := found(text)) is None else m.start() + 1)
