"""VALUES: rows of constants, each column of the type its values have in common. Columns are col1, col2, ... as in
Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from freshet.sql import functions
from freshet.sql.bound import Field, Values
from freshet.sql.expression import Expression
from freshet.sql.scope import Scope

if TYPE_CHECKING:
    from freshet.sql.select import SelectBinder


def bind_values(binder: SelectBinder, node: exp.Values) -> Values:
    statement = binder.statement
    statement.only(node, ("expressions", "alias", "joins", "order", "limit", "offset", "with_"))
    scalar = binder.scalar(Scope(), "VALUES")
    rows: list[list[tuple[Expression, exp.Expr]]] = []
    for row in node.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row]
        rows.append([(scalar.bind(part), part) for part in parts])
        if len(parts) != len(rows[0]):
            message = f"VALUES has rows of {len(rows[0])} and of {len(parts)} values; give each row as many"
            statement.fail(message, row)
    types = []
    for position, column in enumerate(zip(*rows, strict=True)):
        common = functions.common_type(value.type for value, _ in column)
        if common is None:
            statement.fail(f"column {position + 1} of VALUES has no common type; CAST its values", column[0][1])
        types.append(common)
    cast = tuple(
        tuple(v if v.type == t else scalar.cast(v, t, part) for (v, part), t in zip(row, types, strict=True))
        for row in rows
    )
    fields = (Field(f"col{i + 1}", t, any(functions.nullable(row[i]) for row in cast)) for i, t in enumerate(types))
    return Values(cast, tuple(fields))
