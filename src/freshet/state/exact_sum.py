"""Exact sums of doubles that survive deletes: the sum of a group is a fixed-point number, never a rounded one.

Every finite double is a whole multiple of 2**-1074. A group's sum is kept as 32-bit digits in int64 lanes: digit d
weighs 2**(32 d - 1088). Adding touches at most five lanes and carries nothing further, so a lane grows by less than
2**35 an addition, and all lanes are normalized after 2**26 additions. Therefore the sum does not depend on the order of
additions, comes back to exactly zero, and is rounded once, half to even, when it is read.

Real data span few binary orders of magnitude, so only a window of digits [low, high) is kept, shared by all groups, and
widened when a value falls outside it. Two digits above the greatest value's leave room for 2**63 copies of it. NaN and
the infinities are counted separately.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from freshet.state.arena import Scope
from freshet.state.arrays import Int64s
from freshet.state.kernel import inlined, kernel
from freshet.state.tuples import Slots

Floats = npt.NDArray[np.float64]

LOW, WIDTH, GROUPS, ADDED = range(4)  # meta: first digit, digits a group, groups, additions since all was normal
_ADDITIONS = 2**26
_NOT_A_NUMBER, _PLUS, _MINUS = range(3)  # columns of specials
_HEADROOM = 2


@inlined
def _parts(bits: Any) -> Any:
    """The magnitude of a finite double as its lowest digit and three 32-bit parts from there up."""
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent == 0:
        exponent = 1
    else:
        mantissa |= 1 << 52
    place = exponent - 1075 + 1088
    shift = place & 31
    rest = mantissa >> (32 - shift)
    return place >> 5, ((mantissa & 0xFFFFFFFF) << shift) & 0xFFFFFFFF, rest & 0xFFFFFFFF, rest >> 32


@inlined
def _add_part(digits: Any, at: Any, part: Any, weight: Any) -> Any:
    if -0x7FFFFFFF <= weight <= 0x7FFFFFFF:
        product = part * weight
        digits[at] += product & 0xFFFFFFFF
        digits[at + 1] += product >> 32
    else:
        low = np.uint64(part) * np.uint64(weight & 0xFFFFFFFF)
        digits[at] += np.int64(low & np.uint64(0xFFFFFFFF))
        high = part * (weight >> 32)
        digits[at + 1] += np.int64(low >> np.uint64(32)) + (high & 0xFFFFFFFF)
        digits[at + 2] += high >> 32


@kernel("i8(i4[::1], f8[::1], i8[::1], i8, i8[::1], i8[:,::1], i8[::1])")
def _add(groups: Any, values: Any, weights: Any, start: Any, digits: Any, specials: Any, meta: Any) -> Any:
    """Adds rows from `start` on; returns the first one that needs a wider window, more room or a normalization."""
    low, width = meta[LOW], meta[WIDTH]
    all_bits = values.view(np.int64)
    for i in range(start, len(groups)):
        weight = weights[i]
        if weight == 0:
            continue
        bits = all_bits[i]
        group = np.int64(groups[i])
        if (bits >> 52) & 0x7FF == 0x7FF:
            if group >= len(specials):
                return i
            if bits & 0xFFFFFFFFFFFFF != 0:
                specials[group, _NOT_A_NUMBER] += weight
            else:
                specials[group, _PLUS if bits > 0 else _MINUS] += weight
            continue
        first, a, b, c = _parts(bits)
        if a | b | c == 0:
            continue
        lowest = first if a != 0 else (first + 1 if b != 0 else first + 2)
        highest = first + 2 if c != 0 else (first + 1 if b != 0 else first)
        if lowest < low or highest + _HEADROOM >= low + width or meta[ADDED] >= _ADDITIONS:
            return i
        meta[ADDED] += 1
        if bits < 0:
            weight = -weight
        at = group * width + first - low
        if a != 0:
            _add_part(digits, at, a, weight)
        if b != 0:
            _add_part(digits, at + 1, b, weight)
        if c != 0:
            _add_part(digits, at + 2, c, weight)
    return len(groups)


@kernel("void(f8[::1], i8[::1], i8, i8[::1])")
def _span(values: Any, weights: Any, start: Any, window: Any) -> None:
    """Widens window [low, high) to every digit the values need, headroom included."""
    all_bits = values.view(np.int64)
    for i in range(start, len(values)):
        bits = all_bits[i]
        if weights[i] == 0 or (bits >> 52) & 0x7FF == 0x7FF:
            continue
        first, a, b, c = _parts(bits)
        if a | b | c == 0:
            continue
        lowest = first if a != 0 else (first + 1 if b != 0 else first + 2)
        highest = first + 2 if c != 0 else (first + 1 if b != 0 else first)
        if window[0] == window[1]:
            window[0] = lowest
        window[0] = min(window[0], lowest)
        window[1] = max(window[1], highest + _HEADROOM + 1)


@kernel("void(i8[::1], i8, i8, i8, i8)")
def _widen(digits: Any, groups: Any, old: Any, new: Any, shift: Any) -> None:
    """Moves groups of `old` digits, in place from the last, to groups of `new` digits whose first is `shift` lower."""
    for group in range(groups - 1, -1, -1):
        for k in range(new - 1, -1, -1):
            source = k - shift
            digits[group * new + k] = digits[group * old + source] if 0 <= source < old else 0


@kernel("void(i8[::1], i8[::1])")
def _normalize(digits: Any, meta: Any) -> None:
    width = meta[WIDTH]
    for group in range(meta[GROUPS]):
        at = group * width
        for k in range(at, at + width - 1):
            digits[k + 1] += digits[k] >> 32
            digits[k] &= 0xFFFFFFFF
    meta[ADDED] = 0


@inlined
def _round(number: Any, width: Any, low: Any) -> Any:
    """The double nearest to the digits of `number`, the first of which is `low`, ties to even. `number` has two spare
    digits above `width`."""
    size = width + 2
    for k in range(size - 1):
        number[k + 1] += number[k] >> 32
        number[k] &= 0xFFFFFFFF
    sign = 1.0
    if number[size - 1] < 0:
        sign = -1.0
        carry = 1
        for k in range(size):
            flipped = (number[k] ^ 0xFFFFFFFF if k < size - 1 else ~number[k]) + carry
            carry = flipped >> 32
            number[k] = flipped & 0xFFFFFFFF
    top = size - 1
    while top >= 0 and number[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    zeros = 0
    while (number[top] << zeros) & 0x80000000 == 0:
        zeros += 1
    second = number[top - 1] if top >= 1 else 0
    third = number[top - 2] if top >= 2 else 0
    bits = np.uint64((number[top] << 32) | second) << np.uint64(zeros)
    bits |= np.uint64(third >> (32 - zeros))
    beyond = third & ((1 << (32 - zeros)) - 1)
    for k in range(top - 2):
        beyond |= number[k]
    mantissa = np.int64(bits >> np.uint64(11))
    rest = np.int64(bits & np.uint64(0x7FF))
    if rest > 0x400 or (rest == 0x400 and (beyond != 0 or mantissa & 1 == 1)):
        mantissa += 1
    return sign * math.ldexp(float(mantissa), int(32 * (low + top - 1) - 1088 - zeros + 11))


@kernel("void(i4[::1], i8[::1], i8[:,::1], i8[::1], i8, f8[:,::1])")
def _read(groups: Any, digits: Any, specials: Any, meta: Any, shrunk: Any, out: Any) -> None:
    """Sums as several doubles each, divided by 2**(32 * shrunk)."""
    low, width = meta[LOW] - shrunk, meta[WIDTH]
    number, rounded = np.empty(width + 2, np.int64), np.empty(width + 2, np.int64)
    term = np.empty(1)
    for i in range(len(groups)):
        out[i, 1:] = 0.0
        group = np.int64(groups[i])
        if group < len(specials):
            nans, plus, minus = specials[group, 0], specials[group, 1], specials[group, 2]
            if nans != 0 or (plus != 0 and minus != 0):
                out[i, 0] = np.nan
                continue
            if plus != 0 or minus != 0:
                out[i, 0] = np.inf if plus != 0 else -np.inf
                continue
        for k in range(width):
            number[k] = digits[group * width + k]
        number[width] = 0
        number[width + 1] = 0
        for k in range(out.shape[1]):
            rounded[:] = number
            term[0] = out[i, k] = _round(rounded, width, low)
            if k + 1 == out.shape[1] or term[0] == 0.0 or not np.isfinite(term[0]):
                break
            bits = term.view(np.int64)[0]
            first, a, b, c = _parts(bits)
            sign = 1 if bits < 0 else -1
            if a != 0:
                number[first - low] += sign * a
            if b != 0:
                number[first - low + 1] += sign * b
            if c != 0:
                number[first - low + 2] += sign * c


@kernel("void(i4[::1], i8[::1], i8[:,::1], i8[::1])")
def _clear(groups: Any, digits: Any, specials: Any, meta: Any) -> None:
    width = meta[WIDTH]
    for group in groups:
        if group < len(specials):
            specials[group, :] = 0
        for k in range(np.int64(group) * width, np.int64(group) * width + width):
            digits[k] = 0


class ExactSum:
    """One exact sum of doubles for each group number below what was reserved."""

    def __init__(self, scope: Scope) -> None:
        self._digits = scope.array("digits", np.int64)
        self._specials = scope.array("specials", np.int64, columns=3)
        self._meta = scope.array("meta", np.int64)

    def reserve(self, groups: int) -> None:
        """Makes room for group numbers below `groups`."""
        meta = self._meta.data
        if groups > meta[GROUPS]:
            self._digits.grow(groups * int(meta[WIDTH]))
            width = int(meta[WIDTH])
            meta[GROUPS] = self._digits.capacity // width if width else groups

    def add(self, groups: Slots, values: Floats, weights: Int64s) -> None:
        """Adds `weight` copies of each value to its group, or removes them if negative; weight 0 skips the row."""
        done = 0
        while True:
            done = _add(groups, values, weights, done, self._digits.data, self._specials.data, self._meta.data)
            if done == len(groups):
                return
            self._make_room(values, weights, done)

    def _make_room(self, values: Floats, weights: Int64s, row: int) -> None:
        meta = self._meta.data
        if not math.isfinite(values[row]):
            self._specials.grow(int(meta[GROUPS]))
            return
        if meta[ADDED] >= _ADDITIONS:
            _normalize(self._digits.data, meta)
            return
        low, old, groups = int(meta[LOW]), int(meta[WIDTH]), int(meta[GROUPS])
        window = np.array([low, low + old], np.int64)
        _span(values, weights, row, window)
        new = int(window[1] - window[0])
        self._digits.grow(groups * new)
        _widen(self._digits.data, groups, old, new, low - int(window[0]) if old else 0)
        meta[LOW], meta[WIDTH] = window[0], new

    def terms(self, groups: Slots, count: int, shrunk: int = 0) -> Floats:
        """Each sum, divided by 2**32 `shrunk` times, as `count` doubles: the sum correctly rounded, then the remainder,
        rounded as well, and so on. Each holds 53 binary digits more, however far below the ones before."""
        out = np.empty((len(groups), count))
        _read(groups, self._digits.data, self._specials.data, self._meta.data, shrunk, out)
        return out

    def sums(self, groups: Slots) -> Floats:
        """The sum of each group, correctly rounded."""
        return self.terms(groups, 1)[:, 0]

    def clear(self, groups: Slots) -> None:
        _clear(groups, self._digits.data, self._specials.data, self._meta.data)

    def reset(self) -> None:
        for array in (self._digits, self._specials, self._meta):
            array.reset()
