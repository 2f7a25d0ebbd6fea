"""Functions that the parser makes nodes of their own of, with arguments that are not simply bound one by one."""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from freshet.scalar import types
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.types import Type
from freshet.sql.datatype import bind_type, schema_type, type_of
from freshet.sql.source import Statement, sql_of


class ArgumentBinder(Protocol):
    """What these functions need of the binder of their clause."""

    statement: Statement

    def bind(self, node: exp.Expr | None) -> Expression: ...

    def build(self, name: str, args: list[Expression], node: exp.Expr) -> Expression: ...

    def cast(self, value: Expression, to: Type, node: exp.Expr) -> Expression: ...

    def unknown(self, node: exp.Expr) -> Expression: ...


def to_date(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    operand = binder.bind(node.this)
    return operand if operand.type == types.DATE else binder.cast(operand, types.DATE, node)


def add_days(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    if node.text("unit").upper() not in ("", "DAY"):
        return binder.unknown(node)
    return binder.build("date_add", [binder.bind(node.this), binder.bind(node.expression)], node)


def trim(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position").upper(), "trim")
    chars = node.args.get("expression")
    return binder.build(name, [binder.bind(p) for p in (node.this, chars) if p is not None], node)


def initcap(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    if node.args.get("expression") not in (None, exp.Literal.string(" ")):  # the parser notes Spark's word mark
        return binder.unknown(node)
    return binder.build("initcap", [binder.bind(node.this)], node)


def pad(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    parts = (node.this, node.expression, node.args.get("fill_pattern"))
    name = "lpad" if node.args.get("is_left") else "rpad"
    return binder.build(name, [binder.bind(p) for p in parts if p is not None], node)


def extract(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    return binder.build("date_part", [Literal(types.STRING, node.name), binder.bind(node.expression)], node)


def days_between(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    end, start = (e.this if isinstance(e, exp.TsOrDsToDate) else e for e in (node.this, node.expression))
    if node.args.get("unit") is None:
        return binder.build("datediff", [binder.bind(end), binder.bind(start)], node)
    return between_moments(binder, node, start, end)


def between_moments(binder: ArgumentBinder, node: exp.Expr, start: exp.Expr, end: exp.Expr) -> Expression:
    unit = Literal(types.STRING, node.text("unit"))
    return binder.build("timestampdiff", [unit, binder.bind(start), binder.bind(end)], node)


def add_units(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    unit = Literal(types.STRING, node.text("unit"))
    return binder.build("timestampadd", [unit, binder.bind(node.expression), binder.bind(node.this)], node)


def variant_get(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    """The type of the result is a text: NULL of that type stands for it."""
    parts = node.expressions
    args = [binder.bind(part) for part in parts[:2]]
    if len(parts) == 3:
        if not parts[2].is_string:
            binder.statement.refuse(sql_of(node), "write VARIANT_GET(v, '$.a', 'INT')", node)
        if parts[2].name.strip().upper() != "VARIANT":
            args.append(Literal(type_of(parts[2], binder.statement), None))
    return binder.build(node.name.lower(), args, node)


def variant_part(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    """v:a.b[0]"""
    steps = []
    for part in node.expression.expressions:
        if isinstance(part, exp.JSONPathKey) and isinstance(part.this, str) and "'" not in part.this:
            steps.append(f"['{part.this}']")
        elif isinstance(part, exp.JSONPathSubscript) and isinstance(part.this, int) and part.this >= 0:
            steps.append(f"[{part.this}]")
        elif not isinstance(part, exp.JSONPathRoot):
            binder.statement.refuse(sql_of(node), "write a path of names and positions, as in v:items[0].name", node)
    path = Literal(types.STRING, "$" + "".join(steps))
    return binder.build("variant_get", [binder.bind(node.this), path], node)


def variant_cast(binder: ArgumentBinder, value: Expression, to: exp.Expr, attempts: bool, node: exp.Expr) -> Expression:
    """CAST from or to VARIANT."""
    if to.this == exp.DataType.Type.VARIANT:
        return binder.build("to_variant", [value], node)
    args = [value, Literal(types.STRING, "$"), Literal(bind_type(to, binder.statement), None)]
    return binder.build("try_variant_get" if attempts else "variant_get", args, node)


def from_json(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    """FROM_JSON reads the type that its second argument is the text of: NULL of that type stands for it."""
    if len(node.expressions) != 2 or not node.expressions[1].is_string:
        binder.statement.refuse(sql_of(node), "write FROM_JSON(text, 'a INT, b STRING')", node)
    schema = Literal(schema_type(node.expressions[1], binder.statement), None)
    return binder.build("from_json", [binder.bind(node.expressions[0]), schema], node)
