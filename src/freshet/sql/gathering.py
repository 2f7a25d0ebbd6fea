"""ARRAY_AGG, COLLECT_LIST, COLLECT_SET and STRING_AGG: the values of a group as one list or one text.

NULLs are left out, as in Spark. Without an ORDER BY the values are in ascending order: a view has one answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from freshet import types
from freshet.sql.expression import AggregateCall, Expression
from freshet.types import Type

if TYPE_CHECKING:
    from freshet.sql.group import Groups

GATHERING = (exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat)


def bind_gathered(groups: Groups, call: exp.Expr, only: Expression | None, node: exp.Expr) -> AggregateCall:
    statement, inside = (
        groups.binder.statement,
        groups.binder.scalar(groups.scope, "an aggregate's argument", None, groups.draft),
    )
    statement.only(call, ("this", "separator", "nulls_excluded"))
    body, items = (call.this.this, call.this.expressions) if isinstance(call.this, exp.Order) else (call.this, [])
    distinct = isinstance(call, exp.ArrayUniqueAgg)
    if isinstance(body, exp.Distinct):
        distinct = True
        if len(body.expressions) != 1:
            statement.fail("one value is gathered at a time; name one column after DISTINCT", node)
        body = body.expressions[0]
    value = inside.bind(body)
    if value.type.items is not None or value.type.name in ("VOID", "MONTHS", "MICROS"):
        statement.refuse(f"a list of {value.type} values", "gather what they are made from", node)
    text = isinstance(call, exp.GroupConcat)
    args = [inside.cast(value, types.STRING, node) if text else value]
    order = []
    for item in items:
        statement.only(item, ("this", "desc", "nulls_first"))
        key = inside.bind(item.this)
        key = args[0] if key == value else key
        if key not in args:
            args.append(key)
        order.append((args.index(key), bool(item.args.get("desc")), bool(item.args.get("nulls_first"))))
    if distinct and len(args) > 1:
        statement.fail("with DISTINCT only the gathered value itself orders the list; order by that", node)
    separator = _separator(groups, call, node) if text else ""
    name, kind = ("string_agg", types.STRING) if text else ("array_agg", Type("STRING", items=value.type))
    return AggregateCall(name, tuple(args), kind, distinct, only, tuple(order), separator)


def _separator(groups: Groups, call: exp.Expr, node: exp.Expr) -> str:
    given = call.args.get("separator")
    if not isinstance(given, exp.Literal) or not given.is_string:
        groups.binder.statement.refuse(
            "STRING_AGG without a text between the values", "write one, as in STRING_AGG(x, ', ')", node
        )
    return str(given.name)
