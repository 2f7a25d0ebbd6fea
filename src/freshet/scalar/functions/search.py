"""The position of a text in another, and the parts between delimiters. Positions count characters from 1; 0 means
absent."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.bounds import STEPS_A_BYTE, byte_sizes, check_steps
from freshet.scalar.functions.nulls import OWN
from freshet.scalar.functions.registry import Function, Step, declare
from freshet.scalar.functions.rows import longest
from freshet.scalar.functions.text_calls import in_python, literal, signature, typed, where_ascii, whole
from freshet.scalar.types import INT, STRING

_find = signature("s", "s", "i", least=2)


def _resolve_locate(name: str, args: tuple[Expression, ...]) -> Expression:
    part, text, *start = _find(name, args)
    return Call(INT, "locate", (text, part, *start)) if start else Call(INT, "instr", (text, part))


def _instr(call: Call) -> Step:
    by_text = in_python(INT, lambda text, part: text.find(part) + 1)
    part = literal(call.args[1])
    if part is None:
        return by_text
    return where_ascii(whole(INT, lambda text: pc.add(pc.find_substring(text, part), 1)), by_text)


def locate(text: str, part: str, start: int) -> int:
    """The empty text is found at position 1, wherever the search begins."""
    return 0 if start < 1 else text.find(part, start - 1) + 1 if part else 1


def _locate(call: Call) -> Step:
    found_from = in_python(INT, locate)

    def step(text: Column, part: Column, start: Column) -> Column:
        """Spark's special rule: a search that begins at NULL finds nothing, whatever the other arguments are."""
        position = found_from(text, part, start)
        if start.valid is None or position.valid is None:
            return position
        return Column(INT, np.where(start.valid, position.data, 0), position.valid | ~start.valid)

    return step


def split_part(text: str, mark: str, number: int) -> str:
    """The empty delimiter does not split; parts that do not exist are empty."""
    if number == 0:
        raise EvaluationError("SPLIT_PART has no part 0; count parts from 1, or from the end with -1")
    parts = text.split(mark) if mark else [text]
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if 0 <= at < len(parts) else ""


def _split_part(call: Call) -> Step:
    return in_python(STRING, split_part)


def substring_index(text: str, mark: str, count: int) -> str:
    """The text before the count-th delimiter, or after it when counted from the end; delimiters may overlap."""
    if not mark or count == 0:
        return ""
    if count > 0:
        at = -1
        for _ in range(count):
            at = text.find(mark, at + 1)
            if at < 0:
                return text
        return text[:at]
    at = len(text) - len(mark) + 1
    for _ in range(-count):
        at = text.rfind(mark, 0, max(at - 1 + len(mark), 0))
        if at < 0:
            return text
    return text[at + len(mark) :]


def _substring_index(call: Call) -> Step:
    """Delimiters that overlap themselves are compared again at each character."""
    compute = in_python(STRING, substring_index)

    def step(text: Column, mark: Column, count: Column) -> Column:
        args = (text, mark, count)
        check_steps(
            "substring_index", byte_sizes(text) * byte_sizes(mark), args[:2], longest(*args), "use a shorter mark"
        )
        return compute(*args)

    return step


def _is_short(call: Call) -> bool:
    mark = literal(call.args[1])
    return mark is not None and len(mark.encode()) <= STEPS_A_BYTE


def find_in_set(text: str, listed: str) -> int:
    items = listed.split(",")
    return items.index(text) + 1 if text in items else 0


def _find_in_set(call: Call) -> Step:
    return in_python(INT, find_in_set)


declare(
    Function(
        "instr", "text and what to find in it", typed(INT, "s", "s"), _instr, parsed={exp.StrPosition: None}, total=True
    ),
    Function(
        "split_part",
        "text, a mark, and which part",
        typed(STRING, "s", "s", "i"),
        _split_part,
        parsed={exp.SplitPart: ("this", "delimiter", "part_index")},
        total=lambda call: bool(literal(call.args[2])),
    ),
    Function(
        "substring_index",
        "text, a mark, and how many of them",
        typed(STRING, "s", "s", "i"),
        _substring_index,
        parsed={exp.SubstringIndex: ("this", "delimiter", "count")},
        total=_is_short,
        sized=True,
    ),
    Function(
        "find_in_set",
        "text and a list of texts between commas",
        typed(INT, "s", "s"),
        _find_in_set,
        total=True,
    ),
    Function(
        "locate",
        "what to find, the text, and optionally where to begin",
        _resolve_locate,
        _locate,
        also=("position",),
        parsed={exp.StrPosition: ("substr", "this", "position")},
        nulls=OWN,
        total=True,
    ),
)
