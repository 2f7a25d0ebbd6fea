"""LAG and LEAD: the value on the row at an offset before or after this one, among the visible rows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sqlglot import exp

from freshet.scalar import functions
from freshet.scalar.column import Column
from freshet.scalar.expression import Expression
from freshet.scalar.functions.coercion import common_type
from freshet.scalar.lanes import unpack, values
from freshet.scalar.types import Type
from freshet.state.arrays import Int64s
from freshet.state.strings import StringPool
from freshet.windows.call import WindowCall
from freshet.windows.function import BoundFunction, WindowFunction, WrittenWindow, rows_seen, window_function
from freshet.windows.ordered_rows import OrderedRows
from freshet.windows.taking import numbered, places_of, taken
from freshet.windows.value_order import valid_rows


class _Neighbour(WindowFunction):
    opposite: ClassVar[str]
    needs_over = True
    ordered = True
    framed = False
    takes_filter = False
    takes_ignore_nulls = True

    def bind(self, written: WrittenWindow) -> BoundFunction:
        written.reads("this", "offset", "default")
        offset, default = written.call.args.get("offset"), written.call.args.get("default")
        value = written.value(written.call.this)
        distance = 1 if offset is None else written.constant(offset, self.name)
        args: tuple[Expression, ...] = (value,)
        if default is not None:
            instead = written.value(default)
            if value.type.name == "VOID" or value.type.name == instead.type.name == "DECIMAL":
                value = _cast(value, common_type((value.type, instead.type)) or value.type)
            args = (value, _cast(instead, value.type))
        name = self.name if distance >= 0 else self.opposite
        return BoundFunction(name, args, value.type, True, abs(distance), written.ignore_nulls)

    def numbers(self, before: Int64s, distance: int) -> Int64s:
        """The values of each row's neighbour, among the visible rows; `before`: how many of these precede each row."""
        raise NotImplementedError

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        args = [rows.columns[i] for i in call.args]
        here = np.arange(len(rows))
        there = here
        if call.constant:
            places, before = numbered(rows_seen(call, rows))
            number = self.numbers(before, call.constant)
            there = places_of(number, places, (number >= before[rows.starts]) & (number < before[rows.ends]))
        if len(args) == 1:
            return taken(args[0], there)
        # The default is the row's own value of the second argument: both are read from one column of twice the length.
        return taken(_stacked(args[0], args[1], rows.pool), np.where(there >= 0, there, len(rows) + here))


@window_function(exp.Lag)
class Lag(_Neighbour):
    name = "lag"
    opposite = "lead"
    by_rows_before = True

    def numbers(self, before: Int64s, distance: int) -> Int64s:
        return before[:-1] - distance


@window_function(exp.Lead)
class Lead(_Neighbour):
    name = "lead"
    opposite = "lag"

    def numbers(self, before: Int64s, distance: int) -> Int64s:
        return before[1:] + distance - 1


def _cast(value: Expression, to: Type) -> Expression:
    return value if value.type == to else functions.cast(value, to)


def _stacked(first: Column, second: Column, pool: StringPool) -> Column:
    lanes = np.concatenate([values(first, pool), values(second, pool)])
    valid = np.concatenate([valid_rows(first), valid_rows(second)])
    nulls = np.where(valid, 0, 1).reshape(-1, 1)
    return unpack(np.concatenate([lanes, nulls], axis=1), [first.type], pool)[0]
