"""Sums of products: expands the argument of a SUM, if arithmetic may be done in any order.

On integers and on decimals that keep all digits, +, - and * are those of a ring, so `(a.x + b.y) * c.z` is
`a.x * c.z + b.y * c.z` and each factor can be summed where its table stands. The whole is computed in 38 digits and is
checked against its type in the end. Each row's own values must fit their types as well, or SQL refuses the row: where
the types of the operands do not guarantee that, `unproven` lists the expressions in question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from freshet.scalar.expression import Call, Expression, Literal, references
from freshet.scalar.functions.coercion import MOST_DIGITS
from freshet.scalar.functions.compiled import is_total
from freshet.scalar.functions.extremes import limits
from freshet.scalar.functions.registry import function_of
from freshet.scalar.types import Type

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_MOST = 16  # products of one sum; if there are more, joined rows are enumerated


@dataclass(frozen=True, slots=True)
class Product:
    negative: bool
    factors: tuple[Expression, ...]  # each reads one relation at most, and has a value on every row

    def times(self, other: Product) -> Product:
        return Product(self.negative != other.negative, (*self.factors, *other.factors))


def is_exact(type_: Type) -> bool:
    return type_.is_integer or type_.name == "DECIMAL"


def products(e: Expression) -> tuple[Product, ...] | None:
    """The products whose sum is the expression, wherever it is not NULL; None if it has no such form."""
    found = _products(e)
    return None if found is None or len(found) > _MOST or not all(map(_is_safe, found)) else found


def factors(found: tuple[Product, ...]) -> list[Expression]:
    """All factors: the expression is NULL if one of them is."""
    return list(dict.fromkeys(f for p in found for f in p.factors))


def double_factors(e: Expression) -> tuple[Expression, ...] | None:
    """The factors of a product of doubles, in the order in which they are multiplied; None if it is something else."""
    if e.type.name != "DOUBLE":
        return None
    if is_factor(e):
        return (e,)
    if not isinstance(e, Call) or e.name != "multiply":
        return None
    first, last = e.args if is_factor(e.args[1]) else e.args[::-1]
    before = double_factors(first)
    return None if before is None or not is_factor(last) or last.type.name != "DOUBLE" else (*before, last)


def is_factor(e: Expression) -> bool:
    """Whether an expression is a factor, that is, not expanded."""
    return len(references(e)) <= 1 and is_total(e)


def _products(e: Expression) -> tuple[Product, ...] | None:
    if not is_exact(e.type):
        return None
    if is_factor(e):
        return (Product(False, (e,)),)
    if not isinstance(e, Call) or not all(is_exact(a.type) for a in e.args):
        return None
    if e.name == "cast":
        return _products(e.args[0]) if function_of(e).is_total(e) else None
    sides = [s for a in e.args if (s := _products(a)) is not None]
    if len(sides) < len(e.args) or sum(map(len, sides)) > _MOST:
        return None
    if e.name == "negate":
        return _turned(sides[0])
    scales = [a.type.scale for a in e.args]
    name = e.name.removeprefix("exact_")
    if name in ("add", "subtract") and e.type.scale == max(scales):
        return (*sides[0], *(sides[1] if name == "add" else _turned(sides[1])))
    if name == "multiply" and e.type.scale == sum(scales):
        return tuple(a.times(b) for a in sides[0] for b in sides[1])
    return None


def _turned(found: tuple[Product, ...]) -> tuple[Product, ...]:
    return tuple(Product(not p.negative, p.factors) for p in found)


def _is_safe(p: Product) -> bool:
    """Whether the factors of one relation can be multiplied on every tuple, including those without partners."""
    digits: dict[frozenset[int], int] = {}
    for f in p.factors:
        read = references(f)
        digits[read] = digits.get(read, 0) + _digits(f)
    return max(digits.values()) <= MOST_DIGITS


def _digits(e: Expression) -> int:
    if isinstance(e, Call) and e.name == "cast" and e.args[0].type.is_integer:
        return _digits(e.args[0])
    return e.type.precision if e.type.name == "DECIMAL" else _DIGITS[e.type.name]


# What may not fit -------------------------------------------------------------------------------------------------


def unproven(e: Expression) -> list[Call]:
    """The parts of an expression made of products that might not fit their type, by the types of what they read."""
    return list(dict.fromkeys(_unproven(e)))


def _unproven(e: Expression) -> Iterator[Call]:
    if is_factor(e) or not isinstance(e, Call) or e.name.startswith("exact_") or _products(e) is None:
        return
    for a in e.args:
        yield from _unproven(a)
    low, high = _computed(e)
    least, most = limits(e.type)
    if low < least or high > most:
        yield e


def _span(e: Expression) -> tuple[int, int]:
    """The least and greatest unscaled value that an expression may have according to its types."""
    least, most = limits(e.type)
    if isinstance(e, Literal) and isinstance(e.value, int):
        return e.value, e.value
    if isinstance(e, Call) and e.name in ("cast", "negate", "add", "subtract", "multiply"):
        if all(is_exact(a.type) for a in e.args):
            low, high = _computed(e)
            return max(low, least), min(high, most)
    return least, most


def _computed(e: Call) -> tuple[int, int]:
    """The same before the result is cast to the type of the expression."""
    spans = [_span(a) for a in e.args]
    if e.name != "multiply":
        ups = [10 ** max(e.type.scale - a.type.scale, 0) for a in e.args]
        spans = [(low * up, high * up) for (low, high), up in zip(spans, ups, strict=True)]
    (low, high), other = spans[0], spans[-1]
    if e.name == "cast":
        return low, high
    if e.name == "negate":
        return -high, -low
    if e.name == "multiply":
        corners = [a * b for a in (low, high) for b in other]
        return min(corners), max(corners)
    return (low + other[0], high + other[1]) if e.name == "add" else (low - other[1], high - other[0])
