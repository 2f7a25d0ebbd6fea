"""One interval as text, as Spark writes it: INTERVAL '1 02:03:04.5' DAY TO SECOND.

Every unit but the first has two digits, and so has an hour, minute or second that comes first; seconds have a fraction
without trailing zeros. `scalar.functions.interval_texts` formats columns.
"""

from __future__ import annotations

from freshet.scalar.types import Type

#: The size of each unit in the smallest unit, and how many of it make the next larger one.
SIZES = {"YEAR": 12, "MONTH": 1, "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000,
         "SECOND": 1_000_000}  # fmt: skip
LIMITS = {"MONTH": 12, "HOUR": 24, "MINUTE": 60, "SECOND": 60}
#: The separator before each unit but the first.
BEFORE = {"MONTH": "-", "HOUR": " ", "MINUTE": ":", "SECOND": ":"}


def interval_text(value: int, type: Type) -> str:
    text = "-" if value < 0 else ""
    for place, unit in enumerate(type.units):
        count = abs(value) // SIZES[unit]
        digits = "" if unit in ("YEAR", "DAY") or type.name == "MONTHS" else "02"
        text += f"{BEFORE[unit]}{count % LIMITS[unit]:{digits}}" if place else f"{count:{digits}}"
    micros = abs(value) % SIZES["SECOND"]
    if type.units[-1] == "SECOND" and micros:
        text += f".{micros:06}".rstrip("0")
    return f"INTERVAL '{text}' {type.span}"
