"""How often each bit is set in the values of a group, from which BIT_AND, BIT_OR and BIT_XOR are computed.

Counts are linear in the weights of rows, so after a value is deleted they are those of the other values. The sign of an
integer is its upper bits, all alike, so that the bits of any integer type are those of 64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.kernel import kernel
from freshet.state.tuples import Slots

BITS = 64
AND, OR, XOR = range(3)


@kernel("void(i4[::1], i8[::1], i8[::1], i8[:,::1])")
def _add_bits(groups: Any, values: Any, weights: Any, counts: Any) -> None:
    for i in range(len(groups)):
        if weights[i] != 0:
            left = np.uint64(values[i])
            for bit in range(BITS):
                if left & np.uint64(1):
                    counts[groups[i], bit] += weights[i]
                left >>= np.uint64(1)


@kernel("void(i4[::1], i8[::1], i8[:,::1], i8, i8[::1])")
def _combine(groups: Any, rows: Any, counts: Any, operation: Any, out: Any) -> None:
    for i in range(len(groups)):
        value = np.uint64(0)
        for bit in range(BITS):
            count = counts[groups[i], bit]
            if operation == AND:
                is_set = count == rows[i]
            elif operation == OR:
                is_set = count > 0
            else:
                is_set = count % 2 != 0
            if is_set:
                value |= np.uint64(1) << np.uint64(bit)
        out[i] = np.int64(value)


class BitCounts:
    def __init__(self, scope: Scope) -> None:
        self._counts = scope.array("bits", np.int64, columns=BITS)

    def reserve(self, groups: int) -> None:
        self._counts.grow(groups)

    def add(self, groups: Slots, values: Int64s, weights: Int64s) -> None:
        _add_bits(groups, np.ascontiguousarray(values, np.int64), weights, self._counts.data)

    def values(self, groups: Slots, rows: Int64s, operation: int) -> tuple[Int64s, Bools]:
        """The result of the operation over each group's values, and whether the group has any; `rows` has their
        number."""
        out = np.empty(len(groups), np.int64)
        _combine(groups, np.ascontiguousarray(rows), self._counts.data, operation, out)
        return out, rows > 0

    def reset(self) -> None:
        self._counts.reset()
