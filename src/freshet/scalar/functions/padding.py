"""Texts padded or truncated to a number of characters: LPAD, RPAD and CHAR(n)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from freshet.scalar.column import Column
from freshet.scalar.expression import Literal
from freshet.scalar.functions.bounds import Texts, check_sizes, known, made_text
from freshet.scalar.functions.rows import constant, every, lane, longest
from freshet.scalar.types import STRING
from freshet.state import texts

SPACE = constant(Literal(STRING, " "))


def padded(what: str, left: bool, a: Column, width: Column, filler: Column = SPACE) -> pa.LargeStringArray:
    """Texts truncated to a number of characters, or padded to it on one side. `what` names the function in errors."""
    args = (a, width, filler)
    rows, x, y = longest(*args), Texts(a), Texts(filler)
    sizes, ok, widths = np.empty(rows, np.int64), known(every(args), rows), lane(width.data)
    texts.pad(*x.parts, widths, *y.parts, ok, left, sizes, 0)
    check_sizes(what, sizes, None, rows)
    out = np.empty(int(sizes.sum()), np.uint8)
    texts.pad(*x.parts, widths, *y.parts, ok, left, sizes, out.ctypes.data)
    return made_text(sizes, out)
