"""SESSION_WINDOW: rows in order of time, in sessions that end where no row reaches the next one.

Law: each row reaches from its time to an end of its own, its argument. A row belongs to the session of the rows before
it if one of these reaches its time, and begins another one else. A session is the time from its first row to the
greatest end. No text of a query names these functions: GROUP BY SESSION_WINDOW is bound to them.
"""

from __future__ import annotations

import numpy as np

from freshet.scalar.column import Column
from freshet.state.arrays import Bools, Int64s
from freshet.windows.call import WindowCall
from freshet.windows.function import WindowFunction, window_function
from freshet.windows.ordered_rows import OrderedRows


class _Session(WindowFunction):
    ordered = True
    framed = False
    takes_filter = False


@window_function()
class SessionStart(_Session):
    name = "session_start"
    by_rows_before = True

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        first, _ = _sessions(call, rows)
        places = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
        return Column(call.type, rows.columns[rows.order[0].column].data[places])


@window_function()
class SessionEnd(_Session):
    name = "session_end"

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        first, reached = _sessions(call, rows)
        places = np.flatnonzero(first)
        lengths = np.diff(places, append=len(rows))
        return Column(call.type, np.repeat(reached[places + lengths - 1], lengths))


def _sessions(call: WindowCall, rows: OrderedRows) -> tuple[Bools, Int64s]:
    """The rows that begin a session, and how far each row and those before it in its partition reach."""
    times, ends = rows.columns[rows.order[0].column].data, rows.columns[call.args[0]].data
    distinct, ranks = np.unique(ends, return_inverse=True)
    before = rows.starts * len(distinct)  # ranks of a later partition are greater
    reached = distinct[np.maximum.accumulate(before + ranks) - before]
    first = rows.starts == np.arange(len(rows))
    first[1:] |= times[1:] > reached[:-1]
    return first, reached
