"""Constants as written → Literal, typed as Spark types them: 1 is INT, 1.50 is DECIMAL(3,2), 1e3 is DOUBLE."""

from __future__ import annotations

import math
import re
from decimal import ROUND_DOWN, Decimal

from sqlglot import exp

from freshet.errors import brief
from freshet.scalar import types
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.functions import interval_texts
from freshet.scalar.interval import SIZES
from freshet.scalar.types import Type
from freshet.sql.source import Statement

#: The number of months, or microseconds, in each unit of an INTERVAL.
_SIZES = {**SIZES, "WEEK": 7 * SIZES["DAY"], "MILLISECOND": 1_000, "MICROSECOND": 1}
_WRITTEN_AS = {"WEEK": "DAY", "MILLISECOND": "SECOND", "MICROSECOND": "SECOND"}
_PAIRS = re.compile(r"([+-]?[\d.]+)\s+([A-Za-z]+)")
_WHOLE = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_SECONDS = re.compile(r"[+-]?(\d{1,20}(\.\d{0,9})?|\.\d{1,9})", re.ASCII)
_EXAMPLES = {"MONTHS": "INTERVAL '1-2' YEAR TO MONTH", "MICROS": "INTERVAL '1 02:03:04' DAY TO SECOND"}

_LONGEST_NUMBER = 1000  # characters, more than any DOUBLE needs


def bind_number(text: str, statement: Statement, node: exp.Expr) -> Literal:
    if len(text) > _LONGEST_NUMBER:
        statement.fail(f"a number of {len(text):,} characters; numbers have up to 38 digits", node)
    if "e" in text.lower():
        if math.isinf(float(text)):
            statement.fail(f"{text} is out of range for DOUBLE; write a number up to 1.7976931348623157e308", node)
        return Literal(types.DOUBLE, float(text))
    if "." not in text:
        value = int(text)
        for kind in (types.INT, types.BIGINT):
            least, greatest = types.INTEGER_RANGE[kind.name]
            if least <= value <= greatest:
                return Literal(kind, value, written=True)
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    precision = max(len(digits), -exponent)
    if precision > 38:
        statement.fail(f"{text} has {precision} digits; numbers have up to 38, or write it as a DOUBLE: {text}e0", node)
    unscaled = int("".join(map(str, digits)))
    return Literal(types.decimal(precision, -exponent), -unscaled if sign else unscaled)


def has_suffix(node: exp.Expr) -> bool:
    """Whether it is a number with a type suffix, such as 7L, which the parser reads as a cast of 7."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal):
        return False
    start, end = node.this.meta.get("start"), node.this.meta.get("end")
    return start is not None and end is not None and end - start >= len(node.this.name)


def as_written(bound: Expression) -> Expression:
    """Combined with a decimal, 7S and 7L count only the digits written; 7Y counts those of its type."""
    if isinstance(bound, Literal) and bound.type in (types.SMALLINT, types.BIGINT):
        return Literal(bound.type, bound.value, written=True)
    return bound


def computed(bound: Expression) -> Expression:
    return Literal(bound.type, bound.value) if isinstance(bound, Literal) else bound


def bind_interval(node: exp.Expr, statement: Statement) -> Literal:
    """INTERVAL '3' DAY, INTERVAL '1 02:03' DAY TO MINUTE, or INTERVAL '1 year 2 months'; its units
    determine the type."""
    unit, text = node.args.get("unit"), _amount(node, statement)
    if isinstance(unit, exp.IntervalSpan):
        kind = bind_span(unit, statement)
        value = interval_texts.read(text, kind)
        if value is None:
            statement.fail(f"{brief(text)} is not an {kind}; write it as in {_EXAMPLES[kind.name]}", node)
        return Literal(kind, value)
    pairs = [(text, unit.name)] if isinstance(unit, exp.Var) else _PAIRS.findall(text)
    if not pairs or (unit is None and _PAIRS.sub("", text).strip()):
        statement.fail(f"INTERVAL {brief(text)} has no units; write it as in {_EXAMPLES['MICROS']}", node)
    total, units = Decimal(0), list[str]()
    for number, word in pairs:
        name = word.upper().removesuffix("S")
        if name not in _SIZES:
            known = ", ".join(_SIZES)
            statement.fail(f"unknown interval unit {word.upper()}; the units are {known}", node)
        units.append(name)
        total += _counted(number.strip(), name, node, statement)
    shown = [_WRITTEN_AS.get(u, u) for u in units]
    family = next((f for f in types.INTERVAL_UNITS.values() if {*shown} <= {*f}), None)
    if family is None:
        statement.fail("an INTERVAL cannot mix months and days; write two intervals", node)
    ends = sorted(family.index(u) for u in shown)
    kind = types.interval(family[ends[0]], family[ends[-1]])
    least, greatest = types.INTEGER_RANGE["INT" if kind.name == "MONTHS" else "BIGINT"]
    if not least <= total <= greatest:
        statement.fail(f"INTERVAL {brief(text)} {units[0]} is out of range; write a shorter one", node)
    return Literal(kind, int(total))


def bind_span(unit: exp.Expr, statement: Statement) -> Type:
    """The type INTERVAL unit [TO unit]."""
    ends = [unit] if isinstance(unit, exp.Var) else [unit.this, unit.expression]
    names = [e.name.upper() for e in ends]
    for family in types.INTERVAL_UNITS.values():
        if all(n in family for n in names) and family.index(names[0]) <= family.index(names[-1]):
            return types.interval(names[0], names[-1])
    statement.fail(
        f"INTERVAL {' TO '.join(names)} is not valid; write larger units first, and do not mix months and days", unit
    )


def _amount(node: exp.Expr, statement: Statement) -> str:
    amount = node.this
    sign = "-" if isinstance(amount, exp.Neg) else ""
    amount = amount.this if isinstance(amount, exp.Neg) else amount
    if not isinstance(amount, exp.Literal):
        remedy = "multiply one, as in INTERVAL '1' DAY * n"
        statement.refuse("an INTERVAL that varies by row", remedy, node)
    text = amount.name.strip()
    if sign and text[:1] in ("-", "+"):
        sign, text = ("" if text[0] == "-" else "-"), text[1:]
    return sign + text


def _counted(text: str, name: str, node: exp.Expr, statement: Statement) -> Decimal:
    """The given number of units, in months or microseconds; only seconds may have a fraction."""
    if not (_SECONDS if name == "SECOND" else _WHOLE).fullmatch(text):
        statement.fail(f"{brief(text)} is not a number of {name.lower()}s; write INTERVAL '3' {name}", node)
    return (Decimal(text) * _SIZES[name]).to_integral_value(ROUND_DOWN)
