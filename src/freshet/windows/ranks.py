"""ROW_NUMBER, RANK and other functions of a row's position in its partition: differences of positions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sqlglot import exp

from freshet.scalar.column import Column
from freshet.scalar.types import DOUBLE, INT, Type
from freshet.windows.call import ROWS_SO_FAR, SO_FAR, WindowCall
from freshet.windows.function import BoundFunction, WindowFunction, WrittenWindow, window_function
from freshet.windows.ordered_rows import OrderedRows


class _Place(WindowFunction):
    type: ClassVar[Type] = INT
    needs_over = True
    ordered = True
    framed = False
    own_frame = ROWS_SO_FAR
    takes_filter = False

    def bind(self, written: WrittenWindow) -> BoundFunction:
        written.reads()
        return BoundFunction(self.name, (), self.type, nullable=False)


@window_function(exp.RowNumber)
class RowNumber(_Place):
    name = "row_number"
    by_rows_before = True
    shared_by_ties = False

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        return Column(call.type, np.arange(len(rows)) - rows.starts + 1)


@window_function(exp.Rank)
class Rank(_Place):
    name = "rank"
    by_rows_before = True
    shared_by_ties = True

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        return Column(call.type, rows.ties - rows.starts + 1)


@window_function(exp.DenseRank)
class DenseRank(_Place):
    name = "dense_rank"
    by_rows_before = True

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        different = np.cumsum(rows.ties == np.arange(len(rows)))
        return Column(call.type, different - different[rows.starts] + 1)


@window_function(exp.PercentRank)
class PercentRank(_Place):
    name = "percent_rank"
    type = DOUBLE

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        return Column(call.type, (rows.ties - rows.starts) / np.maximum(rows.ends - rows.starts - 1, 1))


@window_function(exp.CumeDist)
class CumeDist(_Place):
    name = "cume_dist"
    type = DOUBLE
    own_frame = SO_FAR  # it sees the rows that tie with its own

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        return Column(call.type, (rows.tie_ends - rows.starts) / (rows.ends - rows.starts))


@window_function(exp.Ntile)
class Ntile(_Place):
    """The number of the bucket; buckets are as even as possible: the first ones have one row more."""

    name = "ntile"

    def bind(self, written: WrittenWindow) -> BoundFunction:
        written.reads("this")
        given = written.call.this
        buckets = 1 if given is None else written.constant(given, self.name, 1)
        return BoundFunction(self.name, (), self.type, nullable=False, constant=buckets)

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        size, larger = np.divmod(rows.ends - rows.starts, call.constant)
        place = np.arange(len(rows)) - rows.starts
        in_larger = larger * (size + 1)
        late = larger + (place - in_larger) // np.maximum(size, 1)
        return Column(call.type, np.where(place < in_larger, place // (size + 1), late) + 1)
