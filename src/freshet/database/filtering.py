"""Subscribers that are called only for transactions whose delta has a row that satisfies a condition."""

from __future__ import annotations

from collections.abc import Callable

from freshet.database.scan import scan_of
from freshet.database.stored import StoredViews
from freshet.database.transaction import Transaction
from freshet.errors import SqlError
from freshet.logical.query import Field, is_query
from freshet.scalar.arrow import from_arrow
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate_filter
from freshet.scalar.expression import Expression, Reference
from freshet.sql.definitions import Definitions
from freshet.sql.parse import bind_all
from freshet.sql.source import SqlText

Callback = Callable[[Transaction], object]


def filtered(view: str, fields: tuple[Field, ...], catalog: Definitions, where: str, callback: Callback) -> Callback:
    """The callback, called only if a row of the delta satisfies the condition, which is SQL over the view's columns."""
    conditions = _conditions(view, catalog, where)

    def call_if_satisfied(tx: Transaction) -> None:
        delta = tx.deltas.get(view)
        if delta is None:  # the transaction was applied without deltas
            callback(tx)
            return

        def read(column: Reference) -> Column:
            return from_arrow(delta.column(column.column), fields[column.column].type)

        if evaluate_filter(conditions, read, delta.num_rows).any():
            callback(tx)

    return call_if_satisfied


def _conditions(view: str, catalog: Definitions, where: str) -> tuple[Expression, ...]:
    quoted = view.replace("`", "``")
    statements = SqlText(f"SELECT * FROM `{quoted}` WHERE {where}").statements()
    seen = StoredViews.over(catalog, set())
    seen.clock = None  # the condition is checked again and again, not now
    bound = bind_all(statements, seen) if len(statements) == 1 else []
    scan = scan_of(bound[0]) if bound and is_query(bound[0]) else None
    if scan is None or scan.limit is not None or scan.order:
        remedy = "write one as in WHERE, without subqueries and NOW()"
        raise SqlError(f"{where[:60]} is not a condition on the columns of {view}; {remedy}")
    return scan.conditions
