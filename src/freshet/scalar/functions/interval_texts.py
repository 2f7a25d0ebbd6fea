"""Columns of intervals as text, as Spark formats and parses them: INTERVAL '1 02:03:04.5' DAY TO SECOND.
`freshet.scalar.interval` formats single intervals.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.scalar.column import Column
from freshet.scalar.functions.rows import joined
from freshet.scalar.interval import BEFORE, LIMITS, SIZES
from freshet.scalar.types import INTEGER_RANGE, INTERVAL_UNITS, Type
from freshet.state.arrays import TEXT, Int64s


def written(a: Column) -> pa.LargeStringArray:
    """A column of intervals as text."""
    type = a.type
    sizes = np.abs(a.data)  # the least value stays negative, but its digits are right when unsigned
    pieces: list[Any] = ["INTERVAL '", pc.if_else(pa.array(a.data < 0), "-", "")]
    for place, unit in enumerate(type.units):
        counts = sizes.view(np.uint64) // np.uint64(SIZES[unit])
        if place:
            pieces.append(BEFORE[unit])
            counts = counts % np.uint64(LIMITS[unit])
        text = pc.cast(pa.array(counts), TEXT)
        pieces.append(text if unit in ("YEAR", "DAY") or type.name == "MONTHS" else pc.utf8_lpad(text, 2, "0"))
    if type.units[-1] == "SECOND":
        pieces.append(_fraction(sizes))
    pieces.append(f"' {type.span}")
    return joined(*pieces)


def _fraction(sizes: Int64s) -> Any:
    micros = pc.cast(pa.array(sizes.view(np.uint64) % np.uint64(1_000_000)), TEXT)
    text = pc.utf8_rtrim(pc.utf8_lpad(micros, 6, "0"), "0")
    return pc.if_else(pc.equal(text, ""), "", joined(".", text))


@cache
def _pattern(type: Type) -> re.Pattern[str]:
    """A pattern for the value alone, or for its literal."""
    value = ""
    for place, unit in enumerate(type.units):
        value += (BEFORE[unit] if place else "") + (r"(\d{1,9})" if not place else r"(\d{1,2})")
    if type.units[-1] == "SECOND":
        value += r"(?:\.(\d{0,9}))?"
    ends = type.span.replace(" ", r"\s+")
    return re.compile(rf"(?:([+-])?{value}|INTERVAL\s+([+-])?'([+-])?{value}'\s+{ends})", re.IGNORECASE | re.ASCII)


def read(text: str, type: Type) -> int | None:
    """The interval of a text; None if it is not an interval, or does not fit."""
    match = _pattern(type).fullmatch(text.strip())
    if match is None:
        return None
    many = len(type.units) + (type.units[-1] == "SECOND")
    groups = match.groups()
    literal = groups[1] is None
    signs = groups[1 + many : 3 + many] if literal else groups[:1]
    digits = groups[3 + many :] if literal else groups[1 : 1 + many]
    total = 0
    for place, (unit, number) in enumerate(zip(type.units, digits, strict=False)):
        count = int(number)
        if place and count >= LIMITS[unit]:
            return None
        total += count * SIZES[unit]
    if type.units[-1] == "SECOND":
        total += int((digits[-1] or "")[:6].ljust(6, "0"))
    total *= -1 if signs.count("-") % 2 else 1
    least, greatest = INTEGER_RANGE["INT" if type.name == "MONTHS" else "BIGINT"]
    return total if least <= total <= greatest else None


assert set(SIZES) == {u for units in INTERVAL_UNITS.values() for u in units}
