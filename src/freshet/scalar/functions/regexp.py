"""RLIKE and the REGEXP functions. A pattern is a literal that `pattern` can parse; see there for its syntax.

RE2 tests whether a text matches, except for look-around and long patterns, and for texts that end in a line end if the
pattern has `$`, which RE2 treats differently. `state.regex` finds where it matches, and all functions of that use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from freshet.errors import SqlError, UnsupportedError, brief
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.bounds import (
    LONGEST_TEXT,
    STEPS_A_BYTE,
    Texts,
    check_sizes,
    known,
    made_text,
    most_steps,
    too_many_steps,
)
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.pattern import LINE_ENDS, Pattern, read
from freshet.scalar.functions.program import Program
from freshet.scalar.functions.registry import BOTH, FUNCTIONS, Function, Resolver, Step, declare, refuse
from freshet.scalar.functions.rows import both, flags, text_of
from freshet.scalar.functions.text_calls import as_text, literal
from freshet.scalar.types import BOOLEAN, INT, STRING, Type
from freshet.state import regex
from freshet.state.arrays import Bools, Int64s

_read = lru_cache(maxsize=1024)(read)


def _matching(type: Type) -> Resolver:
    def resolver(name: str, args: tuple[Expression, ...]) -> Expression:
        if len(args) != 2:
            raise refuse(name, args)
        return _call(type, FUNCTIONS[name].name, name, args)

    return resolver


def _call(type: Type, canonical: str, name: str, args: tuple[Expression, ...]) -> Call:
    """Parses the pattern, so that a mistake in it is an error of the query."""
    pattern = fold(as_text(args[1]))
    if not isinstance(pattern, Literal):
        raise UnsupportedError(
            f"{name.upper()} with a pattern that is not a literal is not supported; write the pattern out"
        )
    if pattern.value is not None:
        _read(str(pattern.value))
    return Call(type, canonical, (as_text(args[0]), pattern, *args[2:]))


def _resolve_extract(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 2 <= len(args) <= 3:
        raise refuse(name, args)
    group = args[2] if len(args) == 3 else Literal(INT, 1)
    if not isinstance(group, Literal) or not (group.type.is_integer or group.type.name == "VOID"):
        raise UnsupportedError(f"{name.upper()} takes a literal number of a group; write it out")
    call = _call(STRING, name, name, (args[0], args[1], group))
    pattern, number = literal(call.args[1]), group.value
    if pattern is not None and number is not None:
        groups = _read(pattern).groups
        if not 0 <= int(number) <= groups:
            raise SqlError(
                f"no group {int(number)} in the regular expression {brief(pattern)}, which has {groups}; 0 is the match"
            )
    return call


def _resolve_replace(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) == 4:
        if literal(args[3]) != 1:
            what = "REGEXP_REPLACE from a position other than 1 is not supported"
            raise UnsupportedError(f"{what}; replace in SUBSTRING(text, position)")
        args = args[:3]
    if len(args) != 3:
        raise refuse(name, args)
    if not isinstance(args[2], Literal):
        raise UnsupportedError("REGEXP_REPLACE takes a literal replacement; write the replacement out")
    call = _call(STRING, name, name, (*args[:2], fold(as_text(args[2]))))
    pattern, replacement = literal(call.args[1]), literal(call.args[2])
    if pattern is not None and replacement is not None:
        _pieces(replacement, _read(pattern).groups)
    return call


def _pieces(replacement: str, groups: int) -> list[str | int]:
    """Texts and numbers of groups: $1 is a group, and in $12 the 2 is text if there are fewer than twelve; \\ quotes
    the next character."""
    pieces: list[str | int] = []
    at = 0
    while at < len(replacement):
        character, following = replacement[at], replacement[at + 1 : at + 2]
        if character == "\\":
            if not following:
                raise SqlError(f"the replacement {brief(replacement)} ends in \\; write \\\\\\\\ for the character")
            pieces.append(following)
            at += 2
        elif character == "$":
            if following == "{":
                raise UnsupportedError(
                    f"${{name}} in {brief(replacement)} is not supported; write the number of the group"
                )
            if not (following.isascii() and following.isdigit()) or int(following) > groups:
                what = f"the replacement {brief(replacement)} names a group with $ that does not exist"
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

_REMEDY = "use a simpler pattern, or match shorter texts"
_ENDS = "[" + "".join(f"\\x{{{ord(c):X}}}" for c in LINE_ENDS) + r"]\z"


def _pattern(call: Call) -> Pattern:
    return _read(str(literal(call.args[1])))


def _few_steps(call: Call) -> bool:
    """Whether no text takes more steps than its bytes allow: an instruction takes at most three per character."""
    if not isinstance(call.args[1], Literal):
        return False
    if call.args[1].value is None:
        return True
    pattern = _pattern(call)
    return not pattern.looks and 3 * (len(pattern.code) + 3) < STEPS_A_BYTE


def _first(name: str, a: Column, program: Program) -> Int64s:
    """The slots of each row's first match, -1 if there is none or the row is NULL."""
    out = np.empty((len(a), program.slots), np.int64)
    texts = Texts(a)
    bad = regex.first_matches(
        texts.offsets, texts.data, known(a.valid, len(a)), *program.parts, most_steps((a,), len(a)), out
    )
    if bad >= 0:
        raise too_many_steps(name, (a,), len(a), bad, _REMEDY)
    return out


def _tested(pattern: Pattern, text: pa.LargeStringArray) -> Bools | None:
    """Which texts match, by RE2; None if it does not accept the pattern."""
    try:
        return flags(pc.match_substring_regex(text, pattern.re2))
    except pa.ArrowInvalid:
        return None


def _rlike(call: Call) -> Step:
    pattern = _pattern(call)

    def step(a: Column, _: Column) -> Column:
        text = text_of(a)
        matches = _tested(pattern, text) if pattern.is_quick else None
        if matches is None:
            return Column(BOOLEAN, _first("rlike", a, pattern.whole)[:, 0] >= 0, a.valid)
        if pattern.has_dollar:
            ended = np.flatnonzero(flags(pc.match_substring_regex(text, _ENDS)))
            if len(ended):
                matches = np.array(matches)
                matches[ended] = _first("rlike", a.take(ended), pattern.whole)[:, 0] >= 0
        return Column(BOOLEAN, matches, a.valid)

    return step


def _between(a: Column, begin: Int64s, end: Int64s) -> pa.LargeStringArray:
    """The bytes of each text from one position to another; empty if a position is negative."""
    sizes = np.where((begin >= 0) & (end >= 0), end - begin, 0)
    texts, out = Texts(a), np.empty(int(sizes.sum()), np.uint8)
    regex.copy_spans(texts.offsets, texts.data, np.ascontiguousarray(begin), sizes, out)
    return made_text(sizes, out)


def _extract(call: Call) -> Step:
    """Empty if nothing matches, or if the group is in a branch that was not taken."""
    group = int(literal(call.args[2]))
    program = _pattern(call).program(*([group] if group else []))

    def step(a: Column, *_: Column) -> Column:
        slots = _first(call.name, a, program)
        return Column(STRING, _between(a, slots[:, -2], slots[:, -1]), a.valid)

    return step


def _substr(call: Call) -> Step:
    """NULL if nothing matches, or if the match is empty."""
    program = _pattern(call).whole

    def step(a: Column, _: Column) -> Column:
        slots = _first(call.name, a, program)
        return Column(STRING, _between(a, slots[:, 0], slots[:, 1]), both(a.valid, slots[:, 1] > slots[:, 0]))

    return step


def _instr(call: Call) -> Step:
    program = _pattern(call).whole

    def step(a: Column, _: Column) -> Column:
        begin, texts = np.ascontiguousarray(_first(call.name, a, program)[:, 0]), Texts(a)
        out = np.empty(len(a), np.int64)
        regex.count_characters(texts.offsets, texts.data, begin, out)
        return Column(INT, out + 1, a.valid)

    return step


def _every(
    name: str, a: Column, program: Program, pieces: Int64s, written: bytes
) -> tuple[Int64s, Callable[[], pa.LargeStringArray]]:
    """The number of matches of each row, and a function that replaces all of them once the size is known."""
    rows, texts, valid = len(a), Texts(a), known(a.valid, len(a))
    counts, sizes = np.empty(rows, np.int64), np.empty(rows, np.int64)
    replacement = pa.py_buffer(written or b" ")

    def run(out: int) -> None:
        bad = regex.all_matches(
            texts.offsets, texts.data, valid, *program.parts, most_steps((a,), rows), counts, LONGEST_TEXT, pieces,
            replacement.address, sizes, out,
        )  # fmt: skip
        if bad >= 0:
            raise too_many_steps(name, (a,), rows, bad, _REMEDY)

    def make() -> pa.LargeStringArray:
        check_sizes(name, sizes, None, rows)
        out = np.empty(int(sizes.sum()), np.uint8)
        run(out.ctypes.data)
        return made_text(sizes, out)

    run(0)
    return counts, make


def _count(call: Call) -> Step:
    program, nothing = _pattern(call).whole, np.empty((0, 2), np.int64)
    return lambda a, _: Column(INT, _every(call.name, a, program, nothing, b"")[0], a.valid)


def _replace(call: Call) -> Step:
    pattern = _pattern(call)
    parts = _pieces(str(literal(call.args[2])), pattern.groups)
    groups = sorted({p for p in parts if isinstance(p, int) and p})
    pieces, written = [], b""
    for part in parts:
        if isinstance(part, int):
            pieces.append((2 * (groups.index(part) + 1) if part else 0, -1))
        else:
            pieces.append((len(written), len(written) + len(part.encode())))
            written += part.encode()
    program, spans = pattern.program(*groups), np.array(pieces, np.int64).reshape(-1, 2)
    return lambda a, *_: Column(STRING, _every(call.name, a, program, spans, written)[1](), a.valid)


declare(
    Function(
        "regexp_extract",
        "text, a pattern, and optionally the number of a group",
        _resolve_extract,
        _extract,
        parsed={exp.RegexpExtract: ("this", "expression", "group")},
        total=_few_steps,
        sized=True,
    ),
    Function(
        "regexp_replace",
        "text, a pattern, and what to write instead",
        _resolve_replace,
        _replace,
        parsed={exp.RegexpReplace: ("this", "expression", "replacement", "position")},
        sized=True,
    ),
    Function(
        "rlike",
        "text and a pattern",
        _matching(BOOLEAN),
        _rlike,
        also=("regexp", "regexp_like"),
        parsed={exp.RegexpLike: BOTH},
        total=_few_steps,
        sized=True,
    ),
    Function(
        "regexp_substr",
        "text and a pattern",
        _matching(STRING),
        _substr,
        parsed={exp.RegexpSubstr: BOTH},
        nulls=IF_ANY_OR_ELSE,
        total=_few_steps,
        sized=True,
    ),
    Function(
        "regexp_instr",
        "text and a pattern",
        _matching(INT),
        _instr,
        parsed={exp.RegexpInstr: BOTH},
        total=_few_steps,
        sized=True,
    ),
    Function("regexp_count", "text and a pattern", _matching(INT), _count, parsed={exp.RegexpCount: BOTH}, sized=True),
)
