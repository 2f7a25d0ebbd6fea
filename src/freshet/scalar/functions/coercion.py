"""The common type of several arguments, and the precision of decimal results: Spark's ANSI rules."""

from __future__ import annotations

from collections.abc import Iterable

from freshet.scalar.expression import Expression, Literal
from freshet.scalar.types import (
    BIGINT,
    DOUBLE,
    INTEGERS,
    INTERVAL_UNITS,
    STRING,
    TIMESTAMP,
    VOID,
    Type,
    array_of,
    decimal,
    interval,
    map_of,
    struct_of,
)

MOST_DIGITS = 38
_LEAST_SCALE = 6
_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_ORDER = (*INTEGERS, "FLOAT", "DOUBLE")


def as_decimal(type: Type) -> Type:
    """The decimal that holds every value of an integer type; decimals are unchanged."""
    return type if type.name == "DECIMAL" else decimal(_INTEGER_DIGITS[type.name], 0)


def literal_decimal(expression: Expression) -> Type:
    """As `as_decimal`, but an integer literal takes only the digits it has."""
    if isinstance(expression, Literal) and expression.type.is_integer and isinstance(expression.value, int):
        return decimal(len(str(abs(expression.value))), 0)
    return as_decimal(expression.type)


def operand_decimal(expression: Expression) -> Type:
    """As `literal_decimal` if the query writes the integer; a computed one has its type."""
    is_computed = isinstance(expression, Literal) and not expression.written
    return as_decimal(expression.type) if is_computed else literal_decimal(expression)


def fitted(precision: int, scale: int) -> Type:
    """Reduced to 38 digits by dropping fractional digits, but not below six of them."""
    if precision <= MOST_DIGITS:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _LEAST_SCALE)))


def bounded(precision: int, scale: int) -> Type:
    return decimal(min(precision, MOST_DIGITS), min(scale, MOST_DIGITS))


def arithmetic_decimal(name: str, a: Type, b: Type) -> Type:
    """The result of decimal arithmetic."""
    p1, s1, p2, s2 = a.precision, a.scale, b.precision, b.scale
    if name in ("add", "subtract"):
        scale = max(s1, s2)
        return fitted(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if name == "multiply":
        return fitted(p1 + p2 + 1, s1 + s2)
    if name == "divide":
        scale = max(_LEAST_SCALE, s1 + p2 + 1)
        return fitted(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return fitted(min(p1 - s1, p2 - s2) + scale, scale)


def common_type(types: Iterable[Type]) -> Type | None:
    """The type that all can be cast to implicitly; None if there is none. VOID if all are NULL."""
    common = VOID
    for t in types:
        wider = _wider(common, t)
        if wider is None:
            return None
        common = wider
    return common


def _wider(a: Type, b: Type) -> Type | None:
    if a == b or b is VOID or b.name == "VOID":
        return a
    if a.name == "VOID":
        return b
    if a.is_nested or b.is_nested:
        return _wider_nested(a, b)
    if a.name == "STRING" and b.name == "STRING":
        return STRING
    if a.is_numeric and b.is_numeric:
        return _wider_number(a, b)
    if {a.name, b.name} == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    if a.is_interval and a.name == b.name:
        known = INTERVAL_UNITS[a.name]
        both = sorted({*a.units, *b.units}, key=known.index)
        return interval(both[0], both[-1])
    if "STRING" in (a.name, b.name):
        other = b if a.name == "STRING" else a
        if other.is_interval:
            return None
        return BIGINT if other.is_integer else DOUBLE if other.is_numeric else other
    return None


def _wider_nested(a: Type, b: Type) -> Type | None:
    """The parts' common types; fields of structs must have the same names, of which the first are taken."""
    if a.name != b.name or len(a.parts) != len(b.parts):
        return None
    parts = [_wider(x, y) for x, y in zip(a.parts, b.parts, strict=True)]
    if None in parts:
        return None
    types = [p for p in parts if p is not None]
    if a.name == "STRUCT":
        names = [name for name, _ in a.fields]
        if [n.lower() for n in names] != [n.lower() for n, _ in b.fields]:
            return None
        return struct_of(zip(names, types, strict=True))
    return array_of(*types) if a.name == "ARRAY" else map_of(*types)


def _wider_number(a: Type, b: Type) -> Type:
    if a.name == "DECIMAL" or b.name == "DECIMAL":
        if a.is_fraction or b.is_fraction:
            return DOUBLE
        a, b = as_decimal(a), as_decimal(b)
        scale = max(a.scale, b.scale)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        return decimal(min(whole + scale, MOST_DIGITS), min(scale, MOST_DIGITS - whole))  # whole digits come first
    name = _ORDER[max(_ORDER.index(a.name), _ORDER.index(b.name))]
    if name == "FLOAT" and (a.is_integer or b.is_integer):
        return DOUBLE
    return Type(name)
