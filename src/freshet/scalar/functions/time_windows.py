"""Windows of time: WINDOW(ts, '10 minutes', '5 minutes') as the array of all windows that contain a time.

A window is a struct of its start, which belongs to it, and its end, which does not. Windows have one length and begin
one slide after another, counted from the epoch plus an offset.
"""

from __future__ import annotations

import numpy as np

from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.elements import kept
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import Function, Step, declare, refuse
from freshet.scalar.nested import Lists, fields_of, make_lists, make_structs
from freshet.scalar.types import TIMESTAMP, array_of, struct_of

WINDOW = struct_of([("start", TIMESTAMP), ("end", TIMESTAMP)])


def _resolve_time(name: str, args: tuple[Expression, ...]) -> Expression:
    """WINDOW_TIME: the last microsecond of a window."""
    if len(args) != 1 or [t.name for t in args[0].type.parts] != ["TIMESTAMP"] * 2:
        raise refuse(name, args)
    return Call(TIMESTAMP, name, args)


def _time(call: Call) -> Step:
    def step(a: Column) -> Column:
        end = fields_of(a)[1]
        return Column(TIMESTAMP, end.data - 1, end.valid)

    return step


def windows_of(time: Expression, length: int, slide: int, offset: int) -> Expression:
    """The windows that contain a time."""
    numbers = (Literal(TIMESTAMP, n) for n in (length, slide, offset))
    return Call(array_of(WINDOW), "time_windows", (cast(time, TIMESTAMP), *numbers))


def _windows(call: Call) -> Step:
    length, slide, offset = (int(a.value) for a in call.args[1:] if isinstance(a, Literal) and a.value is not None)
    most = -(-length // slide)

    def step(a: Column, *_: Column) -> Column:
        times = a.data if a.valid is None else np.where(a.valid, a.data, 0)
        last = times - (times - offset) % slide
        starts = (last[:, np.newaxis] - slide * np.arange(most)).reshape(-1)
        there = starts + length > np.repeat(times, most)
        windows = make_structs(WINDOW, (Column(TIMESTAMP, starts), Column(TIMESTAMP, starts + length)))
        lists = Lists(np.arange(len(times) + 1) * most, (windows,))
        return make_lists(call.type, lists if there.all() else kept(lists, there), a.valid)

    return step


declare(
    Function("time_windows", strict=_windows, total=True),
    Function("window_time", "a window of time", _resolve_time, _time, nulls=IF_ANY_OR_ELSE, nested=True, total=True),
)
