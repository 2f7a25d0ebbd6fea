"""FIRST_VALUE, LAST_VALUE and NTH_VALUE: the value on one row of the frame, among the visible rows."""

from __future__ import annotations

from sqlglot import exp

from freshet.scalar.column import Column
from freshet.state.arrays import Int64s
from freshet.windows.call import WindowCall
from freshet.windows.function import BoundFunction, WindowFunction, WrittenWindow, rows_seen, window_function
from freshet.windows.ordered_rows import OrderedRows
from freshet.windows.taking import numbered, places_of, taken


class _FramedValue(WindowFunction):
    takes_ignore_nulls = True

    def bind(self, written: WrittenWindow) -> BoundFunction:
        written.reads("this", "offset", "from_first")
        value, ignores = written.value(written.call.this), written.ignore_nulls
        third = written.call.args.get("from_first")
        if third is not None:  # the parser's name for the third argument, which says whether to ignore NULLs
            if not isinstance(third, exp.Boolean):
                given = written.text(third)
                written.fail(f"NTH_VALUE takes TRUE or FALSE as its third argument, not {given}; write one")
            ignores |= bool(third.this)
        return BoundFunction(self.name, (value,), value.type, True, self.constant(written), ignores, written.only)

    def constant(self, written: WrittenWindow) -> int:
        return 0

    def number(self, call: WindowCall, first: Int64s, last: Int64s) -> Int64s:
        """The value of the requested row, among the visible rows; `first` and `last` are those of each frame."""
        raise NotImplementedError

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        low, high = rows.frame(call.frame)
        places, before = numbered(rows_seen(call, rows))
        first, last = before[low], before[high] - 1
        number = self.number(call, first, last)
        return taken(rows.columns[call.args[0]], places_of(number, places, (number >= first) & (number <= last)))


@window_function(exp.FirstValue, exp.First, exp.AnyValue)
class FirstValue(_FramedValue):
    name = "first_value"

    def number(self, call: WindowCall, first: Int64s, last: Int64s) -> Int64s:
        return first


@window_function(exp.LastValue, exp.Last)
class LastValue(_FramedValue):
    name = "last_value"

    def number(self, call: WindowCall, first: Int64s, last: Int64s) -> Int64s:
        return last


@window_function(exp.NthValue)
class NthValue(_FramedValue):
    name = "nth_value"
    needs_over = True
    ordered = True
    takes_filter = False

    def constant(self, written: WrittenWindow) -> int:
        return written.constant(written.call.args["offset"], self.name, 1)

    def number(self, call: WindowCall, first: Int64s, last: Int64s) -> Int64s:
        return first + call.constant - 1
