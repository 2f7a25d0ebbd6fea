"""Values of numpy as Python's.

Law: a moment or a length of time has the same value whatever its unit. numpy itself wraps around where a coarse unit is
cast to microseconds, and makes an integer of a unit that Python lacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_MOST_MICROS = 2.0**63 * (1 - 2.0**-40)


def is_within_years(moment: np.datetime64) -> bool:
    """Whether it is in the years 1 to 9999, or NaT."""
    return bool(np.isnat(moment)) or 1 <= 1970 + int(moment.astype("M8[Y]").astype(np.int64)) <= 9999


def of_numpy(value: np.generic) -> Any:
    """Raises ValueError for moments and lengths of time that no SQL type holds."""
    if isinstance(value, np.datetime64):
        if not is_within_years(value):
            raise ValueError(f"{value} is outside the years 1 to 9999")
        return _in_micros(value, "M8")
    if isinstance(value, np.timedelta64):
        if np.datetime_data(value.dtype)[0] in ("Y", "M", "generic"):
            raise ValueError(f"{value!r} has no fixed length")
        if abs(value / np.timedelta64(1, "us")) > _MOST_MICROS:
            raise ValueError(f"{value!r} is longer than an INTERVAL can be")
        return _in_micros(value, "m8")
    return value.item()


def _in_micros(value: np.datetime64 | np.timedelta64, kind: str) -> Any:
    made = value.item()
    return value.astype(f"{kind}[us]").item() if isinstance(made, int) else made
