"""Functions that the parser makes nodes of their own of, with arguments that are not simply bound one by one."""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from freshet.scalar import types
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.types import Type
from freshet.sql.datatype import schema_type
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


def from_json(binder: ArgumentBinder, node: exp.Expr) -> Expression:
    """FROM_JSON reads the type that its second argument is the text of: NULL of that type stands for it."""
    if len(node.expressions) != 2 or not node.expressions[1].is_string:
        binder.statement.refuse(sql_of(node), "write FROM_JSON(text, 'a INT, b STRING')", node)
    schema = Literal(schema_type(node.expressions[1], binder.statement), None)
    return binder.build("from_json", [binder.bind(node.expressions[0]), schema], node)
