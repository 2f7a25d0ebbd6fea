"""Evaluates bound expressions over columns, a batch of rows at a time.

An expression that fails on some row (ANSI: overflow, division by zero, a failing cast) raises EvaluationError with the
first row on which the operation failed. Rows that a condition excludes from an operation never make it fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from freshet.budget import look
from freshet.scalar.arrow import from_arrow, to_arrow
from freshet.scalar.column import Column
from freshet.scalar.expression import Expression, Reference
from freshet.scalar.functions.compiled import compiled, is_total
from freshet.scalar.functions.rows import gather, on_rows, spread, text_of, truth
from freshet.state.arrays import Bools

__all__ = ["evaluate", "evaluate_filter", "from_arrow", "text_of", "to_arrow"]


def evaluate(expr: Expression, columns: Callable[[Reference], Column], rows: int) -> Column:
    """The value of `expr` on each of `rows` rows; `columns` returns the columns it reads."""
    look()
    if not rows:
        return gather(expr.type, [], 0)  # without rows not even a constant is computed
    made = spread(compiled(expr)(columns, rows), rows)
    if made.type.name == "BOOLEAN" and made.data.dtype == np.bool_:
        return Column(made.type, made.data.astype(np.int64), made.valid)
    return made


def evaluate_filter(exprs: Sequence[Expression], columns: Callable[[Reference], Column], rows: int) -> Bools:
    """The rows on which all conditions are true. A condition that may fail sees only the rows that passed those before
    it."""
    if not rows:
        return np.ones(0, np.bool_)
    passed: Bools | None = None
    for expr in exprs:
        look()
        node = compiled(expr)
        if passed is None:
            passed = _holds(node(columns, rows), rows)
            continue
        kept = np.count_nonzero(passed)
        if kept == 0:
            return passed
        if kept == rows or (4 * kept > rows and is_total(expr)):
            passed = passed & _holds(node(columns, rows), rows)
            continue
        left = np.flatnonzero(passed)
        holds = _holds(on_rows(node, columns, left, rows), len(left))
        passed = np.zeros(rows, np.bool_)
        passed[left[holds]] = True
    return np.ones(rows, np.bool_) if passed is None else passed


def _holds(column: Column, rows: int) -> Bools:
    data = truth(column)
    if column.valid is not None:
        data = data & column.valid
    return data if len(data) == rows else np.repeat(data, rows)
