"""FIRST, LAST and ANY_VALUE: a value of some row, chosen by a rule that does not depend on the order of arrival.

SQL lets the engine choose the row. Here FIRST and ANY_VALUE are the least value that is not NULL and LAST is the
greatest, so a view has one answer, and deleting other rows does not change it. They are NULL only if all values are.
"""

from __future__ import annotations

from sqlglot import exp

from freshet.aggregates.function import AGGREGATES, WrittenCall, spelled
from freshet.scalar.expression import Expression


@spelled(exp.First, exp.FirstValue, exp.AnyValue)
def first(written: WrittenCall) -> Expression:
    written.reads("this")
    return AGGREGATES["min"].bind(written)


@spelled(exp.Last, exp.LastValue)
def last(written: WrittenCall) -> Expression:
    written.reads("this")
    return AGGREGATES["max"].bind(written)
