"""The sum of all products of doubles that take one factor from each of several groups, from sums of the groups alone:
it is the product of these sums.

A group's sum is given as `TERMS` doubles that add up to it, and so is the result: each product of two terms is computed
with its rounding error, and all of these are added exactly (Shewchuk's expansions). Only what lies beyond the leading
`TERMS` doubles is dropped, so the result is more exact than a sum of rounded products.

Infinities and NaN, and products that overflow, follow from the extremes of each group: its least and greatest value and
the least absolute value. Rounding is monotone, so the extremes of the rounded products are products of extremes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from freshet.state.kernel import inlined, kernel
from freshet.state.spread import product_error

TERMS = 4
#: The columns of a group: the terms of its sum, then its extremes.
LEAST, GREATEST, SMALLEST, COLUMNS = TERMS, TERMS + 1, TERMS + 2, TERMS + 3


@inlined
def _two_sum(a: Any, b: Any) -> Any:
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@inlined
def _grow(parts: Any, n: Any, value: Any) -> Any:
    """Adds a value to `n` doubles that do not overlap, in ascending order; returns how many there are then."""
    m = 0
    for i in range(n):
        value, rest = _two_sum(value, parts[i])
        if rest != 0.0:
            parts[m] = rest
            m += 1
    parts[m] = value
    return m + 1


@inlined
def _leading(parts: Any, n: Any, out: Any) -> None:
    """The sum of `n` doubles that do not overlap, in ascending order, as a few: each is the rounded rest."""
    bottom, total = n - 1, parts[n - 1]
    for i in range(n - 2, -1, -1):
        total, rest = _two_sum(total, parts[i])
        if rest != 0.0:
            parts[bottom] = total
            bottom -= 1
            total = rest
    parts[bottom] = total
    top, total = 0, parts[bottom]
    for i in range(bottom + 1, n):
        total, rest = _two_sum(parts[i], total)
        if rest != 0.0:
            parts[top] = rest
            top += 1
    parts[top] = total
    for k in range(TERMS):
        out[k] = parts[top - k] if k <= top else 0.0


@inlined
def _special(row: Any, groups: Any) -> Any:
    """NaN or an infinity if the sum of the rounded products is that, else 0."""
    least, greatest, smallest = row[LEAST], row[GREATEST], row[SMALLEST]
    nothing = np.isnan(greatest)
    for g in range(1, groups):
        low, high, small = row[g * COLUMNS + LEAST], row[g * COLUMNS + GREATEST], row[g * COLUMNS + SMALLEST]
        nothing |= np.isnan(high)
        nothing |= smallest == 0.0 and (np.isinf(low) or np.isinf(high))
        nothing |= small == 0.0 and (np.isinf(least) or np.isinf(greatest))
        a, b, c, d = least * low, least * high, greatest * low, greatest * high
        least, greatest, smallest = min(min(a, b), min(c, d)), max(max(a, b), max(c, d)), smallest * small
    if nothing or (greatest == np.inf and least == -np.inf):
        return np.nan
    return greatest if greatest == np.inf else least if least == -np.inf else 0.0


@kernel("i8(f8[:,::1], b1[::1], f8[:,::1])")
def multiply_sums(rows: Any, valid: Any, out: Any) -> Any:
    """`rows`: the columns of all groups of each row. Returns the first row whose result is too large, or -1."""
    groups = rows.shape[1] // COLUMNS
    product, scaled, parts = np.empty(TERMS), np.empty(TERMS), np.empty(2 * TERMS * TERMS + 1)
    for i in range(len(rows)):
        out[i, :] = 0.0
        if not valid[i]:
            continue
        special = _special(rows[i], groups)
        if special != 0.0:
            out[i, 0] = special
            continue
        exponent = 0
        for g in range(groups):
            first = rows[i, g * COLUMNS]
            if not np.isfinite(first):
                return i
            size = math.frexp(first)[1]
            exponent += size
            for k in range(TERMS):
                scaled[k] = math.ldexp(rows[i, g * COLUMNS + k], -size)
            if g == 0:
                product[:] = scaled
                continue
            n = 0
            for j in range(TERMS - 1, -1, -1):
                for k in range(TERMS - 1, -1, -1):
                    if product[j] != 0.0 and scaled[k] != 0.0:
                        whole = product[j] * scaled[k]
                        n = _grow(parts, n, product_error(product[j], scaled[k], whole))
                        n = _grow(parts, n, whole)
            if n == 0:
                parts[0], n = 0.0, 1
            _leading(parts, n, product)
        for k in range(TERMS):
            out[i, k] = math.ldexp(product[k], exponent)
        if not np.isfinite(out[i, 0]):
            return i
    return -1
