"""SPLIT: a text as the array of its parts between the matches of a pattern."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.errors import UnsupportedError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.pattern import read
from freshet.scalar.functions.registry import Function, Step, declare, function_of, refuse, resolve
from freshet.scalar.functions.rows import text_of
from freshet.scalar.functions.text_calls import literal, signature
from freshet.scalar.nested import Lists, make_lists, valid_of
from freshet.scalar.types import STRING, array_of
from freshet.state.arrays import TEXT

_fit = signature("s", "s")
_MARKS = ("\0", "\x1f\0\x1f", "\ue000\0\x1f\ue000")  # texts with all of these are not to be expected
_SPECIAL = frozenset("\\^$.|?*+()[]{}")


def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) == 3:
        limit = args[2]
        if not isinstance(limit, Literal) or not isinstance(limit.value, int) or limit.value > 0:
            raise UnsupportedError("SPLIT with a limit is not supported; leave it out, and use SLICE")
        args = args[:2]
    text, pattern = _fit(name, args)
    if not isinstance(pattern, Literal):
        raise refuse(name, args)
    if pattern.value is not None and read(str(pattern.value)).may_be_empty:
        raise UnsupportedError(f"SPLIT by {pattern.value!r}, which matches between characters, is not supported")
    return Call(array_of(STRING), name, (text, pattern))


def _split(call: Call) -> Step:
    pattern = str(literal(call.args[1]))
    is_plain = not _SPECIAL & set(pattern)

    def step(a: Column, by: Column) -> Column:
        texts, mark = text_of(a), pattern
        if not is_plain:
            mark = next(m for m in _MARKS if not pc.any(pc.match_substring(texts, m)).as_py())
            replace = resolve("regexp_replace", (Literal(STRING, None), call.args[1], Literal(STRING, mark)))
            assert isinstance(replace, Call)
            strict = function_of(replace).strict
            assert strict is not None
            texts = text_of(strict(replace)(a, by, by))
        parts = pc.split_pattern(texts.fill_null(""), mark)
        if isinstance(parts, pa.ChunkedArray):
            parts = parts.combine_chunks()
        offsets = np.array(parts.offsets.to_numpy(), np.int64)
        items = Column(STRING, parts.values.cast(TEXT))
        return make_lists(call.type, Lists(offsets - offsets[0], (items,)), valid_of(a))

    return step


declare(Function("split", "text and a constant pattern", _resolve, _split))
