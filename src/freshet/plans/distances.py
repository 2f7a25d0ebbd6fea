"""How far apart two values can be according to all comparisons of a block together.

`x < y AND y < z AND z < x + 60` implies y < x + 59, although no predicate compares y with x that way. A comparison of
integers, dates or timestamps, each plus a constant, bounds a difference: high <= low + most. Bounds add up along paths,
so the tightest one that follows for two values is the shortest path between them. A constant is a value that lies at a
known distance from zero, so limits of one relation become limits of those it is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from freshet.logical.attributes import lane_form
from freshet.query.attribute import Attribute
from freshet.scalar.expression import Call, ColumnRef, Expression, Literal
from freshet.scalar.functions import build
from freshet.scalar.functions.registry import comparison_of
from freshet.scalar.types import BIGINT, INTEGER_RANGE

Value = Expression | Attribute  # a value, or its class of equal values
ZERO: Value = Literal(BIGINT, 0)


class Distances:
    """`named`: one name for all values that equalities make equal."""

    def __init__(self, predicates: Iterable[Expression], named: Callable[[Expression], Attribute | None]) -> None:
        self._named = named
        self._most: dict[Value, dict[Value, int]] = {}  # by the lower value, then by the higher one
        for p in predicates:
            self._add(p)

    def _add(self, predicate: Expression) -> None:
        operator = comparison_of(predicate)
        if not isinstance(predicate, Call) or operator is None or not operator.is_order:
            return
        left, right = map(offset, predicate.args)
        if left is None or right is None:
            return
        (low, below), (high, above) = (left, right) if operator.is_upward else (right, left)
        bounds = self._most.setdefault(self._value(high), {})
        most = above - below - operator.is_strict
        lower = self._value(low)
        bounds[lower] = min(most, bounds.get(lower, most))

    def _value(self, e: Expression) -> Value:
        if isinstance(e, Literal):
            return ZERO
        name = self._named(e)
        return e if name is None else name

    def most(self, low: Expression, high: Expression) -> int | None:
        """The greatest amount by which one value can exceed the other, if it is bounded."""
        return self._from(self._value(low)).get(self._value(high))

    def _from(self, start: Value) -> dict[Value, int]:
        """The greatest amount by which each value can exceed this one; empty if the comparisons contradict each
        other."""
        distances = {start: 0}
        for _ in range(len(self._most) + 1):
            changed = False
            for low, bounds in self._most.items():
                if low not in distances:
                    continue
                for high, most in bounds.items():
                    if distances[low] + most < distances.get(high, distances[low] + most + 1):
                        distances[high], changed = distances[low] + most, True
            if not changed:
                return distances
        return {}

    def limits(self, column: ColumnRef) -> tuple[int | None, int | None]:
        """The least and the greatest value of a column."""
        value = self._value(column)
        least = self._from(value).get(ZERO)
        return None if least is None else -least, self._from(ZERO).get(value)


def implied_limits(
    relations: Iterable[int],
    filters: Mapping[int, Sequence[Expression]],
    residual: Sequence[Expression],
    named: Callable[[Expression], Attribute | None],
) -> Iterator[tuple[int, Expression]]:
    """Limits that follow for relations from comparisons with limited columns of other relations: a filter for each
    column whose limits are narrower than those of its own filters."""
    own = [p for r in relations for p in filters.get(r, ())]
    every = Distances([*own, *residual], named)
    compared = dict.fromkeys(side for p in residual for side in _columns(p))
    for column in compared:
        if column.relation not in relations:
            continue
        here = Distances(filters.get(column.relation, ()), lambda e: None)
        least, greatest = every.limits(column)
        known_least, known_greatest = here.limits(column)
        if least is not None and (known_least is None or least > known_least) and _fits(column, least):
            yield column.relation, build("ge", (column, Literal(column.type, least)))
        if greatest is not None and (known_greatest is None or greatest < known_greatest) and _fits(column, greatest):
            yield column.relation, build("le", (column, Literal(column.type, greatest)))


def _columns(predicate: Expression) -> Iterator[ColumnRef]:
    """The columns that a comparison compares, without constants."""
    if isinstance(predicate, Call) and comparison_of(predicate) is not None:
        for side in predicate.args:
            found = offset(side)
            if found is not None and isinstance(found[0], ColumnRef):
                yield found[0]


def _fits(column: ColumnRef, limit: int) -> bool:
    least, greatest = INTEGER_RANGE.get(column.type.name, INTEGER_RANGE["BIGINT"])
    return least < limit < greatest


def offset(e: Expression) -> tuple[Expression, int] | None:
    """An integer-ordered value as another value plus a constant; a constant is a literal plus its value."""
    e = lane_form(e)
    if not (e.type.is_integer or e.type.name in ("DATE", "TIMESTAMP")):
        return None
    if isinstance(e, Literal):
        return (e, e.value) if isinstance(e.value, int) else None
    if isinstance(e, Call) and e.name in ("add", "subtract", "plus_interval", "date_add"):
        first, second = e.args
        if isinstance(first, Literal) and e.name == "add":
            first, second = second, first
        moved = isinstance(second, Literal) and second.type.name != "MONTHS" and first.type.name == e.type.name
        if moved and isinstance(second, Literal) and isinstance(second.value, int):
            below = offset(first)
            added = -second.value if e.name == "subtract" else second.value
            return None if below is None else (below[0], below[1] + added)
    return e, 0
