"""Calls functions with extreme arguments, under limits of memory and time, and checks the laws of every call.

Law: a call is either refused with a Freshet error or has a value of its type on every row; a row has the same value
alone, among others, and as literals; a total function never fails, and NULL is where the function's record says.

    python -m tests.fuzz.functions --seed 7 --calls 100000
"""

from __future__ import annotations

import math
import sys
from typing import Any

from freshet.errors import EvaluationError, SqlError
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, text_of, to_arrow
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions import function_of, nullable
from freshet.scalar.functions.compiled import is_total
from freshet.scalar.types import INTEGER_RANGE, Type
from tests.fuzz.contained import WrongError, contained
from tests.fuzz.function_calls import DAY, FIRST_DAY, LAST_DAY, FunctionCall, draw


def run(call: FunctionCall) -> str:
    """The result of a call: "value", "no value" or "refused"; raises other errors."""
    try:
        expression = call.expression()
    except SqlError:
        return "refused"
    alone = [_alone(call, expression, row) for row in range(call.rows)]
    columns = call.columns()
    try:
        made = evaluate(expression, lambda c: columns[c.column], call.rows)
    except EvaluationError as e:
        if is_total(expression):
            raise WrongError(f"total, but: {e.reason}") from e
        if not any(isinstance(a, str) for a in alone):
            raise WrongError(f"refused among other rows only: {e.reason}") from e
        if e.row is not None and not isinstance(alone[e.row], str):
            raise WrongError(f"row {e.row} is blamed, but has a value alone: {e.reason}") from e
        return "no value"
    if len(made) != call.rows or made.type != expression.type:
        raise WrongError(f"{len(made)} values of {made.type}, not {call.rows} of {expression.type}")
    to_arrow(made).validate(full=True)
    values = [_value(made, row) for row in range(call.rows)]
    for row, value in enumerate(values):
        _check(value, expression)
        if isinstance(alone[row], str) or not _same(value, alone[row][0]):
            raise WrongError(f"row {row} is {value!r:.100} among others, alone {alone[row]!r:.100}")
    _check_nulls(call, expression, values)
    for row in range(min(call.rows, 2)):
        _check_folded(call, row, values[row], expression.type)
    return "value"


def _alone(call: FunctionCall, expression: Expression, row: int) -> Any:
    """The value of one row evaluated by itself, in a list; the reason if it has none."""
    columns = call.columns(row)
    try:
        return [_value(evaluate(expression, lambda c: columns[c.column], 1), 0)]
    except EvaluationError as e:
        return e.reason


def _check_nulls(call: FunctionCall, expression: Expression, values: list[Any]) -> None:
    """Where the function's record predicts NULL, given which arguments are NULL on each row."""
    if not isinstance(expression, Call):
        return
    columns, nulls = call.columns(), function_of(expression).nulls
    try:
        args = [evaluate(a, lambda c: columns[c.column], call.rows) for a in expression.args]
    except EvaluationError:
        return  # an argument that not every row needs
    for row, value in enumerate(values):
        flags = [_value(a, row) is None for a in args]
        if nulls.surely(flags) and value is not None:
            raise WrongError(
                f"row {row} is {value!r:.100}, but is said to be NULL for arguments that are NULL: {flags}"
            )
        if value is None and not nulls.may(flags):
            raise WrongError(f"row {row} is NULL, but is said not to be for arguments that are NULL: {flags}")
        if nulls.decides and any(flags) and not nulls.surely(flags):
            raise WrongError("one NULL decides, but is said not to be enough")


def _check_folded(call: FunctionCall, row: int, value: Any, type_: Type) -> None:
    try:
        folded = call.expression(row)
    except SqlError:
        return  # a literal without a value is refused even if it would not be evaluated
    alone = _value(evaluate(folded, lambda c: call.columns()[c.column], 1), 0)
    if folded.type == type_ and not _same(value, alone):  # of literals, decimals have only the digits they need
        raise WrongError(f"row {row} is {value!r:.100}, as literals {alone!r:.100}")


def _value(column: Column, row: int) -> Any:
    if column.valid is not None and not column.valid[row]:
        return None
    if column.type.pooled:
        return text_of(column)[row].as_py()
    if column.hi is not None:
        return (int(column.hi[row]) << 64) + (int(column.data[row]) & 0xFFFFFFFFFFFFFFFF)
    return column.data[row].item()


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-15)
    return bool(a == b)


def _check(value: Any, expression: Expression) -> None:
    type_ = expression.type
    if value is None:
        if not nullable(expression):
            raise WrongError("NULL, but it is said not to be")
    elif type_.is_integer:
        least, greatest = INTEGER_RANGE[type_.name]
        if not least <= value <= greatest:
            raise WrongError(f"{value} is no {type_}")
    elif type_.name == "DECIMAL" and abs(value) >= 10**type_.precision:
        raise WrongError(f"{value} has too many digits for {type_}")
    elif type_.name in ("DATE", "TIMESTAMP"):
        day = value if type_.name == "DATE" else value // DAY
        if not FIRST_DAY <= day <= LAST_DAY:
            raise WrongError(f"{value} is outside of time")
    elif type_.name == "BOOLEAN" and value not in (0, 1):
        raise WrongError(f"{value} is no BOOLEAN")


if __name__ == "__main__":
    sys.exit(contained("tests.fuzz.functions", "Functions called with extreme arguments.", draw, run))
