"""The least and the greatest value of an expression over joined rows, derived from parts that are grouped separately.

Under one row above, each tuple of a part joins with all tuples of the other parts. So the extremes of a product follow
from the extremes of the product of each part's factors, which that part computes as a MIN and a MAX; the same holds
inside the part. The extremes of a sum are the sums of its terms' extremes as long as no two terms read the same part;
if they do, these bounds may be wider than the values of any row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from freshet.logical.products import is_factor, products
from freshet.scalar.expression import Call, Expression, Literal, references
from freshet.scalar.functions.extremes import DIGITS, clamped
from freshet.scalar.types import decimal

Range = tuple[Expression, Expression]
#: The least and the greatest value of an expression over one part's relations, as read above; None where it reads none.
Ask = Callable[[Sequence[Expression]], "list[Range]"]


def multiplied(terms: Sequence[Expression]) -> Expression:
    """A product that is cut instead of failing; `taken_apart` finds its factors again."""
    return reduce(lambda a, b: clamped("clamped_multiply", a.type.scale + b.type.scale, a, b), terms)


def taken_apart(e: Expression) -> list[Expression]:
    if isinstance(e, Call) and e.name == "clamped_multiply":
        return [f for a in e.args for f in taken_apart(a)]
    return [e]


def widened(e: Expression) -> Expression:
    """An expression of products computed so that it never fails."""
    if is_factor(e) or not isinstance(e, Call):
        return e
    args = [widened(a) for a in e.args]
    if e.name == "multiply":
        return multiplied(args)
    args = [_scaled(a, e.type.scale) for a in args]
    if e.name == "cast":
        return args[0]
    if e.name in ("negate", "subtract"):
        args[-1] = _turned(args[-1])
    return args[0] if e.name == "negate" else clamped("clamped_add", e.type.scale, *args)


def extremes(
    e: Expression, is_inside: Callable[[int], bool], above: Callable[[Expression], Expression], ask: Ask
) -> Range:
    """Of an expression of products, in its own scale. `is_inside`: whether a relation is in a part; `above`: what reads
    none of those, as read above; `ask`: the extremes of the products of those factors that each part has."""
    inside = [r for r in references(e) if is_inside(r)]
    if not inside:
        value = above(widened(e))
        return value, value
    if len(references(e)) == 1:
        (found,) = ask([widened(e)])
        return found
    terms = products(e)
    if terms is not None and len(terms) == 1:
        (term,) = terms
        outside = [above(f) for f in term.factors if not any(map(is_inside, references(f)))]
        ranges = [(f, f) for f in outside]
        ranges += ask([f for f in term.factors if any(map(is_inside, references(f)))])
        low, high = reduce(times, ranges)
        if term.negative:
            low, high = _turned(high), _turned(low)
        return _scaled(low, e.type.scale), _scaled(high, e.type.scale)
    assert isinstance(e, Call)
    sides = [extremes(a, is_inside, above, ask) for a in e.args]
    if e.name == "multiply":
        return reduce(times, sides)
    sides = [(_scaled(low, e.type.scale), _scaled(high, e.type.scale)) for low, high in sides]
    if e.name in ("negate", "subtract"):
        low, high = sides[-1]
        sides[-1] = _turned(high), _turned(low)
    if len(sides) == 1:
        return sides[0]
    lows, highs = zip(*sides, strict=True)
    return clamped("clamped_add", e.type.scale, *lows), clamped("clamped_add", e.type.scale, *highs)


def times(a: Range, b: Range) -> Range:
    scale = a[0].type.scale + b[0].type.scale
    if a[0] == a[1] and b[0] == b[1]:
        value = multiplied((a[0], b[0]))
        return value, value
    return clamped("least_product", scale, *a, *b), clamped("greatest_product", scale, *a, *b)


def _turned(e: Expression) -> Expression:
    return multiplied((e, Literal(decimal(1, 0), -1)))


def _scaled(e: Expression, scale: int) -> Expression:
    up = scale - e.type.scale
    if not up:
        return e
    return clamped("clamped_multiply", scale, e, Literal(decimal(min(up + 1, DIGITS), 0), 10**up))
