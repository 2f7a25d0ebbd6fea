"""Text computed from text: repeated, reversed, overlaid, joined, chosen."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, AnyStr

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.bounds import byte_sizes, check_sizes
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.nulls import IF_FIRST, OWN
from freshet.scalar.functions.registry import THIS, Columns, Function, Node, Step, declare, refuse, resolve
from freshet.scalar.functions.rows import (
    both,
    every,
    first_bad,
    gather,
    joined,
    longest,
    on_rows,
    spread,
    strings,
    text_or_null,
)
from freshet.scalar.functions.strings import substring
from freshet.scalar.functions.text_calls import (
    alike,
    as_text,
    in_python,
    is_number,
    like_first,
    signature,
    typed,
    whole,
)
from freshet.scalar.types import INT, STRING
from freshet.state.arrays import TEXT

_reversed = typed(None, "b")
_overlaid, _space, _trim = signature("b", "b", "i", "i", least=3), signature("i", least=1), signature("s", "s", least=1)


def _resolve_overlay(name: str, args: tuple[Expression, ...]) -> Expression:
    if len({a.type.name == "BINARY" for a in args[:2]}) == 2:
        raise refuse(name, args)
    fitted = _overlaid(name, args)
    return Call(like_first(fitted), name, fitted)


def _resolve_reverse(name: str, args: tuple[Expression, ...]) -> Expression:
    if args and args[0].type.is_nested:
        return resolve("array_reverse", args)
    return _reversed(name, args)


def _resolve_space(name: str, args: tuple[Expression, ...]) -> Expression:
    return Call(STRING, "repeat", (Literal(STRING, " "), *_space(name, args)))


def _resolve_btrim(name: str, args: tuple[Expression, ...]) -> Expression:
    return Call(STRING, "trim", _trim(name, args))


def _resolve_join(name: str, args: tuple[Expression, ...]) -> Expression:
    if not args:
        raise refuse(name, args)
    return Call(STRING, name, tuple(as_text(a) for a in args))


def _resolve_elt(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) < 2 or not is_number(args[0].type):
        raise refuse(name, args)
    values = alike(args[1:])
    return Call(like_first(values), name, (cast(args[0], INT), *values))


# Computing ------------------------------------------------------------------------------------------------------


def initcap(text: str) -> str:
    """Only spaces separate words. Lower case depends on the first letter of the word before it (a final Σ)."""
    return " ".join(w[:1].title() + w.lower()[len(w[:1].lower()) :] for w in text.split(" "))


def _initcap(call: Call) -> Step:
    return in_python(STRING, initcap)


def _reverse(call: Call) -> Step:
    return whole(call.type, pc.binary_reverse if call.type.name == "BINARY" else pc.utf8_reverse)


def _repeat(call: Call) -> Step:
    def step(a: Column, times: Column) -> Column:
        rows = longest(a, times)
        a, times = spread(a, rows), spread(times, rows)
        valid = both(a.valid, times.valid)
        sizes, count = byte_sizes(a), np.maximum(times.data, 0)
        check_sizes("repeat", sizes * count, valid, rows)
        count = np.where(sizes > 0, count, 0)  # under a NULL it is arbitrary
        return Column(STRING, strings(pc.binary_repeat(text_or_null(a, valid), pa.array(count))), valid)

    return step


@lru_cache(maxsize=256)
def _alphabet(old: str, new: str) -> dict[int, str | None]:
    """The replacement of each character; the first of equal ones applies. A character without a replacement, or with
    NUL, is dropped."""
    table: dict[int, str | None] = {}
    for i, character in enumerate(old):
        made = new[i] if i < len(new) else "\0"
        table.setdefault(ord(character), None if made == "\0" else made)
    return table


def _translate(call: Call) -> Step:
    return in_python(STRING, lambda text, old, new: text.translate(_alphabet(old, new)))


def _chr(call: Call) -> Step:
    """Uses the last byte; a negative number has no character."""
    characters = pa.array([*map(chr, range(256)), ""], TEXT)
    return lambda a: Column(STRING, characters.take(pa.array(np.where(a.data < 0, 256, a.data & 255))), a.valid)


def overlay(text: AnyStr, part: AnyStr, position: int, length: int = -1) -> AnyStr:
    """A negative length means the length of the replacement."""
    after = position + (length if length >= 0 else len(part))
    return substring(text, 1, position - 1) + part + substring(text, after)


def _overlay(call: Call) -> Step:
    made = in_python(call.type, overlay)

    def step(text: Column, part: Column, *where: Column) -> Column:
        args = (text, part, *where)
        check_sizes("overlay", byte_sizes(text) + byte_sizes(part), every(args), longest(*args))
        return made(*args)

    return step


def _join(call: Call) -> Step:
    def step(*args: Column) -> Column:
        rows, (mark, *parts) = longest(*args), args
        if mark.valid is not None and not mark.valid.any():
            return Column(STRING, pa.nulls(len(mark), TEXT), mark.valid)
        if not parts:
            return Column(STRING, pa.array([""], TEXT), mark.valid)
        given = [np.ones(1, np.int64) if p.valid is None else p.valid.astype(np.int64) for p in parts]
        marked = byte_sizes(mark) * np.maximum(sum(given, np.zeros(1, np.int64)) - 1, 0)
        sizes = sum((byte_sizes(p) for p in parts), np.zeros(1, np.int64))
        check_sizes("concat_ws", marked + sizes, mark.valid, rows)
        texts: list[Any] = [text_or_null(p, p.valid) for p in (spread(p, rows) for p in parts)]
        marks = text_or_null(mark, mark.valid)
        if len(marks) != 1:
            lists = zip(marks.to_pylist(), *(t.to_pylist() for t in texts), strict=True)
            made = [None if m is None else m.join(t for t in row if t is not None) for m, *row in lists]
            return Column(STRING, pa.array(made, TEXT), mark.valid)
        between = marks[0].as_py() or ""
        # Arrow omits a row whose texts are all NULL, so an empty text is added before them and removed again.
        made = joined("", *texts, between=between, skip=True)
        return Column(STRING, strings(pc.utf8_slice_codeunits(made, len(between))), mark.valid)

    return step


def _elt(call: Call, nodes: tuple[Node, ...]) -> Node:
    """Only the chosen text is computed."""

    def node(columns: Columns, rows: int) -> Column:
        number = spread(nodes[0](columns, rows), rows)
        bad = first_bad((number.data < 1) | (number.data >= len(nodes)), number.valid)
        if bad >= 0:
            reason = f"ELT has no text {int(number.data[bad])}, only {len(nodes) - 1}; guard the number with CASE"
            raise EvaluationError(reason, bad)
        pieces = []
        for i, chosen in enumerate(nodes[1:], 1):
            is_mine = number.data == i if number.valid is None else (number.data == i) & number.valid
            mine = np.flatnonzero(is_mine)
            if len(mine):
                pieces.append((mine, on_rows(chosen, columns, mine, rows)))
        return gather(call.type, pieces, rows)

    return node


declare(
    Function("initcap", "text", typed(STRING, "s"), _initcap, parsed={exp.Initcap: None}, total=True),
    Function(
        "reverse",
        "text, BINARY or an array",
        _resolve_reverse,
        _reverse,
        nested=True,
        parsed={exp.Reverse: THIS},
        total=True,
    ),
    Function(
        "repeat",
        "text and how many times",
        typed(STRING, "s", "i"),
        _repeat,
        parsed={exp.Repeat: ("this", "times")},
        sized=True,
    ),
    Function(
        "translate",
        "text, characters, and what to write for each",
        typed(STRING, "s", "s", "s"),
        _translate,
        parsed={exp.Translate: ("this", "from_", "to")},
        total=True,
    ),
    Function(
        "chr",
        "a number",
        typed(STRING, "l"),
        _chr,
        also=("char",),
        parsed={exp.Chr: ("expressions",)},
        total=True,
    ),
    Function(
        "overlay",
        "two texts, or two of BINARY, where to lay the second, and optionally over how much",
        _resolve_overlay,
        _overlay,
        parsed={exp.Overlay: ("this", "expression", "from_", "for_")},
        sized=True,
    ),
    Function("space", "a number of spaces", _resolve_space, parsed={exp.Space: THIS}),
    Function("btrim", "text, and optionally the characters to remove", _resolve_btrim),
    Function(
        "concat_ws",
        "what to write between, and values, each written as text",
        _resolve_join,
        _join,
        parsed={exp.ConcatWs: ("expressions",)},
        nulls=IF_FIRST,
        sized=True,
    ),
    Function(
        "elt",
        "a number and what it chooses from, texts or BINARY",
        _resolve_elt,
        parsed={exp.Elt: ("this", "expressions")},
        lazy=_elt,
        nulls=OWN,
    ),
)
