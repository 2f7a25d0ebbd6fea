"""Constants as written → Literal, typed as Spark types them: 1 is INT, 1.50 is DECIMAL(3,2), 1e3 is DOUBLE."""

from __future__ import annotations

import math
from decimal import Decimal

from sqlglot import exp

from freshet import types
from freshet.errors import brief
from freshet.sql.expression import Literal
from freshet.sql.source import Statement

_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MICROS = {
    "WEEK": 7 * 86_400_000_000,
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}

_LONGEST = 20  # digits of a number of units
_LONGEST_NUMBER = 1000  # characters, more than any DOUBLE needs

NULL = Literal(types.VOID, None)
TRUE = Literal(types.BOOLEAN, 1)
FALSE = Literal(types.BOOLEAN, 0)


def bind_number(text: str, statement: Statement, node: exp.Expr) -> Literal:
    if len(text) > _LONGEST_NUMBER:
        statement.fail(f"a number of {len(text):,} characters; numbers have up to 38 digits", node)
    if "e" in text.lower():
        if math.isinf(float(text)):
            statement.fail(f"{text} is beyond every DOUBLE; write a number up to 1.7976931348623157e308", node)
        return Literal(types.DOUBLE, float(text))
    if "." not in text:
        value = int(text)
        for kind in (types.INT, types.BIGINT):
            least, greatest = types.INTEGER_RANGE[kind.name]
            if least <= value <= greatest:
                return Literal(kind, value)
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    precision = max(len(digits), -exponent)
    if precision > 38:
        statement.fail(f"{text} has {precision} digits; numbers have up to 38, or write it as a DOUBLE: {text}e0", node)
    unscaled = int("".join(map(str, digits)))
    return Literal(types.decimal(precision, -exponent), -unscaled if sign else unscaled)


def bind_interval(node: exp.Expr, statement: Statement) -> Literal:
    """INTERVAL 'n' unit: whole months, or microseconds; fractions only of the latter."""
    unit = node.args.get("unit")
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    if name not in _MONTHS and name not in _MICROS:
        written = node.sql(dialect="spark")
        statement.refuse(written, "write one unit at a time, as in INTERVAL '3' MONTH or INTERVAL '1' DAY", node)
    amount = node.this
    if isinstance(amount, exp.Neg):
        text = "-" + amount.this.name
    elif isinstance(amount, exp.Literal):
        text = amount.name.strip()
    else:
        statement.refuse("an INTERVAL that varies by row", "use date_add(date, days) or add_months(date, n)", node)
    try:
        number = Decimal(text)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite():
        statement.fail(f"{brief(text)} is not a number of {name.lower()}s; write INTERVAL '3' {name}", node)
    kind, size, most = (types.MONTHS, _MONTHS[name], 31) if name in _MONTHS else (types.MICROS, _MICROS[name], 63)
    if number.adjusted() > _LONGEST or abs(number * size) >= 1 << most:
        written = f"INTERVAL '{text[:30]}' {name} is longer than an INTERVAL can be"
        statement.fail(f"{written}, which is less than {(1 << most) // size:,} {name.lower()}s", node)
    scaled = number * size
    if scaled != int(scaled):
        statement.fail(f"INTERVAL '{text}' {name} is no whole number of {kind.name.lower()}; use a smaller unit", node)
    return Literal(kind, int(scaled))
