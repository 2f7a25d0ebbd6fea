"""Columns from plain Python values and back, for comparing operators with recomputation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.scalar.column import Column
from freshet.scalar.types import Type


def column(type: Type, values: Sequence[Any]) -> Column:
    nulls = np.array([v is not None for v in values])
    valid = None if nulls.all() else nulls
    if type.name == "STRING":
        return Column(type, pa.array(values, pa.string()), valid)
    if type.is_fraction:
        return Column(type, np.array([math.nan if v is None else v for v in values], float), valid)
    whole = [77 if v is None else v for v in values]
    low = np.array([(v & (2**64 - 1)) - (2**64 if v & 2**63 else 0) for v in whole], np.int64)
    high = np.array([v >> 64 for v in whole], np.int64)
    return Column(type, low, valid, high if (high != low >> 63).any() else None)


def plain(columns: list[Column]) -> list[tuple[Any, ...]]:
    """Columns to Python values; doubles by their text, so that NaN is itself and 0.0 is not -0.0."""
    out = []
    for c in columns:
        if c.type.name == "STRING":
            assert c.pool is not None
            values = c.pool.text(c.data).to_pylist()
        elif c.type.is_fraction:
            values = [repr(float(v)) for v in c.data]
        elif c.hi is not None:
            values = [(int(h) << 64) + (int(v) & (2**64 - 1)) for h, v in zip(c.hi, c.data, strict=True)]
        else:
            values = [int(v) for v in c.data]
        out.append(values if c.valid is None else [v if ok else None for v, ok in zip(values, c.valid, strict=True)])
    return list(zip(*out, strict=True))


def normal(type: Type, value: Any) -> Any:
    if value is not None and type.is_fraction:
        return repr(float(value) + 0.0)
    return value
