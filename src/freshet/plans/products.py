"""Sums of products: what a SUM's argument is made of, where arithmetic may be done in any order.

On integers and on decimals that keep all digits, +, - and * are those of a ring, so `(a.x + b.y) * c.z` is
`a.x * c.z + b.y * c.z` and each factor can be summed where its table stands. The whole is computed in 38 digits and is
checked against its type in the end. A single product that its own type could not hold is not noticed when the sum fits:
there the answer is the true sum, and SQL alone would have refused the row.
"""

from __future__ import annotations

from dataclasses import dataclass

from freshet.sql.expression import Call, Expression, references
from freshet.sql.functions.coercion import MOST_DIGITS
from freshet.sql.functions.compiled import is_total
from freshet.sql.functions.registry import TOTAL_WHEN
from freshet.types import Type

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_MOST = 16  # products of one sum; more of them are rather enumerated


@dataclass(frozen=True, slots=True)
class Product:
    negative: bool
    factors: tuple[Expression, ...]  # each reads one relation at most, and has a value on every row

    def times(self, other: Product) -> Product:
        return Product(self.negative != other.negative, (*self.factors, *other.factors))


def is_exact(type_: Type) -> bool:
    return type_.is_integer or type_.name == "DECIMAL"


def products(e: Expression) -> tuple[Product, ...] | None:
    """The products that add up to the expression, wherever it is not NULL; None where there are none such."""
    found = _products(e)
    return None if found is None or len(found) > _MOST or not all(map(_is_safe, found)) else found


def factors(found: tuple[Product, ...]) -> list[Expression]:
    """All of their factors: the expression is NULL where one of them is."""
    return list(dict.fromkeys(f for p in found for f in p.factors))


def _products(e: Expression) -> tuple[Product, ...] | None:
    if not is_exact(e.type):
        return None
    if len(references(e)) <= 1 and is_total(e):
        return (Product(False, (e,)),)
    if not isinstance(e, Call) or not all(is_exact(a.type) for a in e.args):
        return None
    if e.name == "cast":
        return _products(e.args[0]) if TOTAL_WHEN["cast"](e) else None
    sides = [s for a in e.args if (s := _products(a)) is not None]
    if len(sides) < len(e.args) or sum(map(len, sides)) > _MOST:
        return None
    if e.name == "negate":
        return _turned(sides[0])
    scales = [a.type.scale for a in e.args]
    if e.name in ("add", "subtract") and e.type.scale == max(scales):
        return (*sides[0], *(sides[1] if e.name == "add" else _turned(sides[1])))
    if e.name == "multiply" and e.type.scale == sum(scales):
        return tuple(a.times(b) for a in sides[0] for b in sides[1])
    return None


def _turned(found: tuple[Product, ...]) -> tuple[Product, ...]:
    return tuple(Product(not p.negative, p.factors) for p in found)


def _is_safe(p: Product) -> bool:
    """Whether the factors of one relation can be multiplied: also on a tuple that finds no partner."""
    digits: dict[frozenset[int], int] = {}
    for f in p.factors:
        read = references(f)
        digits[read] = digits.get(read, 0) + _digits(f)
    return max(digits.values()) <= MOST_DIGITS


def _digits(e: Expression) -> int:
    if isinstance(e, Call) and e.name == "cast" and e.args[0].type.is_integer:
        return _digits(e.args[0])
    return e.type.precision if e.type.name == "DECIMAL" else _DIGITS[e.type.name]
