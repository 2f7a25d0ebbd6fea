"""VALUES: rows of constants, each column with the common type of its values; and range(), whose rows are numbers.

The columns of VALUES are col1, col2, ... as in Spark; the column of range() is id.
"""

from __future__ import annotations

from sqlglot import exp

from freshet.logical.query import Field, Values
from freshet.scalar import functions, types
from freshet.scalar.expression import Expression, Literal
from freshet.sql.binder import Binder
from freshet.sql.scope import NameScope
from freshet.sql.source import sql_of

#: The most rows that a plan lists one by one.
MOST_ROWS = 10_000


def bind_range(binder: Binder, node: exp.Anonymous) -> Values:
    """range(end), range(start, end [, step [, partitions]]): the numbers from start up to, but not including, end."""
    scalar, given = binder.scalar(NameScope(), "range()"), node.expressions
    if not 1 <= len(given) <= 4:
        binder.statement.fail(f"range() takes 1 to 4 numbers, not {len(given)}; write range(start, end, step)", node)
    numbers: list[int] = []
    for part in given:
        value = scalar.cast(scalar.bind(part), types.BIGINT, part)
        if not isinstance(value, Literal) or not isinstance(value.value, int):
            binder.statement.fail(f"range() takes constant numbers, not {sql_of(part)}; write one", part)
        numbers.append(value.value)
    start, end, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if step == 0:
        binder.statement.fail("range() with a step of 0 never ends; use another step", node)
    sequence = range(start, end, step)
    if len(sequence) > MOST_ROWS:
        binder.statement.refuse(f"range() of {len(sequence):,} rows", f"up to {MOST_ROWS:,} are; fill a table", node)
    rows = tuple((Literal(types.BIGINT, n),) for n in sequence)
    return Values(rows, (Field("id", types.BIGINT, False),))


def bind_values(binder: Binder, node: exp.Values) -> Values:
    statement = binder.statement
    statement.only(node, ("expressions", "alias", "joins", "order", "limit", "offset", "with_"))
    scalar = binder.scalar(NameScope(), "VALUES")
    rows: list[list[tuple[Expression, exp.Expr]]] = []
    for row in node.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row]
        rows.append([(scalar.bind(part), part) for part in parts])
        if len(parts) != len(rows[0]):
            message = f"VALUES has rows of {len(rows[0])} and of {len(parts)} values; give each row the same number"
            statement.fail(message, row)
    types = []
    for position, column in enumerate(zip(*rows, strict=True)):
        kinds = {value.type.name for value, _ in column} - {"VOID"}
        common = functions.common_type(value.type for value, _ in column)
        if common is None or ("STRING" in kinds and len(kinds) > 1):  # text is not converted to other types here
            statement.fail(f"column {position + 1} of VALUES has no common type; CAST its values", column[0][1])
        types.append(common)
    cast = tuple(
        tuple(v if v.type == t else scalar.cast(v, t, part) for (v, part), t in zip(row, types, strict=True))
        for row in rows
    )
    fields = (Field(f"col{i + 1}", t, any(functions.nullable(row[i]) for row in cast)) for i, t in enumerate(types))
    return Values(cast, tuple(fields))
