"""A window function in a plan, and the frames of rows that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from freshet.scalar.expression import Literal
from freshet.scalar.types import Type

FrameEnd = int | Literal | None


class FrameUnit(StrEnum):
    ROWS = "rows"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of a partition that a window function sees from one row: positions relative to it (`ROWS`), or the
    distance of their keys from its own (`RANGE`: a literal to add to the key in the direction of the order, or 0 for
    the rows that tie with it). None: to the partition's end on that side."""

    unit: FrameUnit
    start: FrameEnd
    end: FrameEnd


WHOLE = Frame(FrameUnit.RANGE, None, None)
SO_FAR = Frame(FrameUnit.RANGE, None, 0)
ROWS_SO_FAR = Frame(FrameUnit.ROWS, None, 0)


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One window function: its arguments as columns of the query below, and the constant that some functions take. It
    sees the rows on which column `filter` is true; with `ignore_nulls`, those on which its first argument is not
    NULL."""

    function: str
    args: tuple[int, ...]
    type: Type
    frame: Frame
    constant: int = 0
    filter: int | None = None
    ignore_nulls: bool = False
