"""Aggregates over a join, combined from aggregates of its parts.

A part represents its tuples by one row for each value of its keys, with the aggregates that are requested. On the
joined rows of parts, counts multiply and a sum is multiplied by the counts of all other parts; least and greatest
values are passed up unchanged. Sums of products (see `products`) split into a sum for each factor; where a product
might not fit its type on some row, parts also know their least and greatest factors, and the query above checks those
(see `extremes`). AVG is a sum over a count, VARIANCE and STDDEV are made of a count, a sum and a sum of squares. A sum
of doubles is passed up as several doubles that add up to it, so that it is rounded once, at the top, as if its rows had
been added one by one: four of them hold 212 binary digits, and what a part's sum has beyond those is dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Generic, TypeVar

from freshet.aggregates import AGGREGATES, function_of
from freshet.logical.extremes import Range, extremes, multiplied, taken_apart, times
from freshet.logical.products import Product, double_factors, factors, products, unproven
from freshet.logical.query import Block, Field, Grouping, Query, Relation, group_key
from freshet.scalar.expression import AggregateCall, Call, ColumnRef, Expression, GroupRef, Literal, references
from freshet.scalar.functions import build, cast, nullable
from freshet.scalar.functions.coercion import MOST_DIGITS
from freshet.scalar.types import BIGINT, DOUBLE, INT, Type, decimal
from freshet.state.sum_products import TERMS

Moved = Callable[[Expression], Expression]

_COUNT = decimal(20, 0)  # holds every BIGINT


@dataclass(slots=True)
class Part:
    """Some relations of a join that become a separate select, with the aggregates requested from it."""

    relations: list[int]
    width: int  # columns of its keys
    number: int = field(init=False)  # as a relation of the query above
    calls: list[AggregateCall] = field(default_factory=list)

    def column(self, call: AggregateCall) -> int:
        if call not in self.calls:
            self.calls.append(call)
        return self.width + self.calls.index(call)

    def select(self, relations: Sequence[Relation], block: Block, keys: Sequence[Expression], moved: Moved) -> Query:
        """The part's aggregates by its keys. Without keys it has a row only where it has tuples. `moved`: an expression
        as the part reads its relations."""
        having = None if keys else some(self.column(count_of([])))
        names = [k.name if isinstance(k, ColumnRef) else f"k{i}" for i, k in enumerate(keys)]
        fields = [Field(n, k.type, nullable(k)) for n, k in zip(names, keys, strict=True)]
        fields += [Field(f"a{self.width + i}", c.type, not function_of(c).counts) for i, c in enumerate(self.calls)]
        grouping = Grouping(tuple(map(moved, keys)), tuple(c.mapped(moved) for c in self.calls), having)
        outputs = tuple(group_key(i, f) for i, f in enumerate(fields))
        return Query(tuple(relations), block, (), grouping, outputs, tuple(fields))


P = TypeVar("P", bound=Part)


class Totals(ABC, Generic[P]):
    """The aggregates of a query above parts. `inside`: the part that a relation is in, if it is in one."""

    why: str  # the reason why they cannot be combined, if there is one
    parts: list[P]
    inside: dict[int, P]
    checks_fit: bool = False  # whether values below have to be checked

    @abstractmethod
    def _moved(self, e: Expression) -> Expression:
        """An expression over relations that are in no part, as the query above reads them."""

    @abstractmethod
    def _above(self, call: AggregateCall) -> Expression:
        """An aggregate of the query above."""

    def _copies(self) -> list[Expression]:
        """The number of tuples that each row of a relation outside of all parts represents, if there may be several."""
        return []

    def _given(self, call: AggregateCall) -> Expression:
        """An aggregate of the query, computed from aggregates over rows in which parts represent all their tuples."""
        if call.distinct or function_of(call).idempotent:  # the number of copies of a value does not matter
            hidden = next((self.inside[r] for r in read(call) if r in self.inside), None)
            if hidden is None:
                return self._above(call.mapped(self._moved))
            if len(read(call)) > 1:
                return self._above(replace(call, args=(self._extreme(call),)))
            return self._above(replace(call, args=(self._requested(hidden, call),), filter=None))
        return function_of(call).carried(call, self)

    def counted(self, call: AggregateCall) -> Expression:
        return self._counted(call, _conditions(call))

    def total(self, call: AggregateCall) -> Expression:
        """The sum of the argument, in a type that holds it."""
        if call.args[0].type.is_fraction:
            return self._above(self._sum_of_doubles(call, _conditions(call)))
        return self._above(self._sum(call, _conditions(call)))

    def doubles(self, args: tuple[Expression, ...], term: int, call: AggregateCall) -> Expression:
        """One of the doubles that add up to the sum of `args` over the rows of a call."""
        wanted = AggregateCall("sum", args, DOUBLE, term=term)
        return self._above(self._sum_of_doubles(wanted, _conditions(call)))

    def _counted(self, call: AggregateCall, conditions: Sequence[Expression]) -> Expression:
        """The number of joined rows on which the conditions hold and no argument is NULL; NULL where there is none."""
        known = [f for a in call.args for f in self._factors(a) if nullable(f)]
        conditions = [*conditions, *(build("is_not_null", (f,)) for f in known)]
        counts = [*self._copies(), *(self._requested(p, count_of(self._inside(p, conditions))) for p in self.parts)]
        value = multiply(counts or [Literal(BIGINT, 1)], BIGINT)
        if function_of(call).counts:
            for a in call.args:
                value = self._fitting(a, value, ())
        return self._above(AggregateCall("sum", (value,), BIGINT, filter=self._outside(conditions)))

    def _factors(self, argument: Expression) -> list[Expression]:
        """The factors that must not be NULL for the argument to have a value."""
        return factors(self._products(argument))

    def _products(self, argument: Expression) -> tuple[Product, ...]:
        if not any(r in self.inside for r in references(argument)):
            return (Product(False, (argument,)),)
        if (doubles := double_factors(argument)) is not None:
            return (Product(False, doubles),)
        return products(argument) or (Product(False, (argument,)),)

    def _inside(self, part: P, expressions: Sequence[Expression]) -> list[Expression]:
        return [e for e in expressions if any(self.inside.get(r) is part for r in references(e))]

    def _outside(self, conditions: Sequence[Expression]) -> Expression | None:
        return conjunction([self._moved(c) for c in conditions if not any(r in self.inside for r in references(c))])

    def _number_of(self, part: P, conditions: Sequence[Expression]) -> Expression:
        """How many tuples of a part count. None of them is NULL: then the row above has no value."""
        counted = self._requested(part, count_of(conditions))
        return build("nullif", (counted, Literal(BIGINT, 0))) if conditions else counted

    def _sum(self, call: AggregateCall, conditions: Sequence[Expression]) -> AggregateCall:
        split = self._products(call.args[0])
        known = [build("is_not_null", (f,)) for f in factors(split) if nullable(f)]
        total: Expression | None = None
        absent: dict[Expression, None] = {}  # parts of which no tuple counts
        for product in split:
            terms: list[Expression] = [Literal(decimal(1, 0), -1)] if product.negative else []
            terms += [
                _as_decimal(self._moved(f)) for f in product.factors if not any(r in self.inside for r in references(f))
            ]
            counts = self._copies()
            for part in self.parts:
                mine = self._inside(part, [*conditions, *known])
                own = [_as_decimal(f) for f in self._inside(part, product.factors)]
                if own:
                    terms.append(self._requested(part, sum_of(multiply(own, None), conjunction(mine))))
                else:
                    counts.append(self._number_of(part, mine))
                    absent |= dict.fromkeys(build("is_null", (counts[-1],)) for _ in mine[:1])
            if counts:
                terms.append(cast(multiply(counts, BIGINT), _COUNT))
            value = multiply(terms, None)
            total = value if total is None else _added(total, value)
        assert total is not None
        if absent:  # then the others need not fit
            branches = (e for a in absent for e in (a, Literal(total.type, None)))
            total = Call(total.type, "case", (*branches, total))
        return sum_of(self._fitting(call.args[0], total, conditions), self._outside(conditions))

    def _fitting(self, argument: Expression, value: Expression, conditions: Sequence[Expression]) -> Expression:
        """The value above, where all that the argument computes on the rows below fits its types. Rows that a condition
        leaves out are not computed at all."""
        if not any(r in self.inside for r in references(argument)) or products(argument) is None:
            return value  # it is computed unchanged
        for e in unproven(argument):
            exact = self._has_exact_extremes(e)
            if not exact and e.type.name in ("TINYINT", "SMALLINT", "INT"):  # whose limits real data may approach
                self.why = self.why or f"a sum that may not fit {e.type} is checked row by row"
                return value
            low, high = extremes(e, self.inside.__contains__, self._moved, lambda own: self._ranges(own, conditions))
            if conditions:
                missing = build("is_null", (value,))
                low, high = (Call(x.type, "case", (missing, Literal(x.type, None), x)) for x in (low, high))
            name = "within" if exact else "within_bounds"
            value = Call(value.type, name, (value, low, high, Literal(e.type, None)))
            self.checks_fit = True
        return value

    def _has_exact_extremes(self, e: Expression) -> bool:
        """Whether `extremes` are values of real rows: no two sides of a + or * read one part, unless all is one
        product. Of x + y from one part, the greatest x and the greatest y may belong to different rows."""
        terms = products(e)
        if len(references(e)) <= 1 or (terms is not None and len(terms) == 1) or not isinstance(e, Call):
            return True
        sides = [{self.inside[r].number for r in references(a) if r in self.inside} for a in e.args]
        apart = all(not (a & b) for i, a in enumerate(sides) for b in sides[:i])
        return apart and all(map(self._has_exact_extremes, e.args))

    def _ranges(self, own: Sequence[Expression], conditions: Sequence[Expression]) -> list[Range]:
        """Of the product of those expressions that read each part, the least and the greatest value there."""
        ranges: list[Range] = []
        for part in self.parts:
            mine = self._inside(part, own)
            if mine:
                value, only = multiplied(mine), conjunction(self._inside(part, conditions))
                low, high = (AggregateCall(f, (value,), value.type, filter=only) for f in ("min", "max"))
                ranges.append((self._requested(part, low), self._requested(part, high)))
        return ranges

    def _extreme(self, call: AggregateCall) -> Expression:
        """The least or greatest product of factors of several relations on the rows below one above."""
        inside, (value,) = self.inside, call.args
        mine = [f for f in taken_apart(value) if any(r in inside for r in references(f))]
        outside = [self._moved(f) for f in taken_apart(value) if not any(r in inside for r in references(f))]
        ranges = [*((f, f) for f in outside), *self._ranges(mine, ())]
        return reduce(times, ranges)[function_of(call).greatest is True]

    def _sum_of_doubles(self, call: AggregateCall, conditions: Sequence[Expression]) -> AggregateCall:
        read = frozenset().union(*map(references, call.args))
        owners = {self.inside[r].number for r in read if r in self.inside}
        if not owners:
            args = tuple(map(self._moved, call.args))
        elif len(read) == 1:
            owner = self.inside[min(read)]
            args = self._terms(owner, call.args, self._inside(owner, conditions))
        else:
            conditions = [
                *conditions,
                *(build("is_not_null", (f,)) for f in self._factors(call.args[0]) if nullable(f)),
            ]
            args = self._product_of_doubles(call.args[0], conditions)
        counts = self._copies()
        counts += [self._number_of(p, self._inside(p, conditions)) for p in self.parts if p.number not in owners]
        copies = multiply(counts, BIGINT) if counts else None
        return AggregateCall("sum", args, DOUBLE, False, self._outside(conditions), copies=copies, term=call.term)

    def _terms(self, part: P, args: tuple[Expression, ...], conditions: Sequence[Expression]) -> tuple[Expression, ...]:
        """The doubles that add up to a sum over the tuples of a part."""
        whole = AggregateCall("sum", args, DOUBLE, filter=conjunction(conditions))
        return tuple(self._requested(part, replace(whole, term=i)) for i in range(TERMS))

    def _product_of_doubles(self, argument: Expression, conditions: Sequence[Expression]) -> tuple[Expression, ...]:
        """The doubles that add up to the sum of a product over the tuples below one row above (state/sum_products).
        Only the first factors may be multiplied in advance: otherwise others might overflow."""
        groups: list[tuple[P | None, Expression]] = []
        for factor in self._factors(argument):
            part = next((self.inside[r] for r in references(factor) if r in self.inside), None)
            if len(groups) == 1 and groups[0][0] is part:
                groups[0] = part, build("multiply", (groups[0][1], factor))
            elif part is not None and any(part is p for p, _ in groups):
                self.why = self.why or "factors of a product of doubles are multiplied in the order in which they stand"
            else:
                groups.append((part, factor))
        columns: list[Expression] = []
        for part, value in groups:
            if part is None:
                value = self._moved(value)
                columns += [value, *(Literal(DOUBLE, 0.0) for _ in range(TERMS - 1)), value, value]
                columns.append(build("abs", (value,)))
                continue
            mine = self._inside(part, conditions)
            columns += self._terms(part, (value,), mine)
            for name, of in (("min", value), ("max", value), ("min", build("abs", (value,)))):
                columns.append(self._requested(part, AggregateCall(name, (of,), DOUBLE, filter=conjunction(mine))))
        return tuple(Call(DOUBLE, "product_of_sums", (*columns, Literal(INT, k))) for k in range(TERMS))

    def _requested(self, part: P, call: AggregateCall) -> Expression:
        place = part.column(call)
        return ColumnRef(call.type, part.number, place, f"a{place}", not function_of(call).counts)


def read(call: AggregateCall) -> set[int]:
    """The relations that an aggregate reads."""
    return {r for e in call.reads for r in references(e)}


def some(count: int) -> Expression:
    """Whether there are rows at all, by their count at this place: a total without keys is there even of none."""
    return build("gt", (GroupRef(BIGINT, count, f"a{count}", False), Literal(BIGINT, 0)))


def count_of(conditions: Sequence[Expression]) -> AggregateCall:
    return AggregateCall("count", (), BIGINT, filter=conjunction(conditions))


def sum_of(value: Expression, condition: Expression | None) -> AggregateCall:
    return AggregateCall("sum", (value,), AGGREGATES["sum"].type([value.type]), filter=condition)


def _conditions(call: AggregateCall) -> list[Expression]:
    return [] if call.filter is None else [call.filter]


def conjunction(conditions: Sequence[Expression]) -> Expression | None:
    condition = None
    for c in conditions:
        condition = c if condition is None else build("and", (condition, c))
    return condition


def _as_decimal(e: Expression) -> Expression:
    """Integers as decimals: no sum or product of theirs overflows before the whole does."""
    return cast(e, _COUNT) if e.type.is_integer else e


def _added(a: Expression, b: Expression) -> Expression:
    return Call(decimal(MOST_DIGITS, max(a.type.scale, b.type.scale)), "exact_add", (a, b))


def multiply(terms: Sequence[Expression], type_: Type | None) -> Expression:
    """Of integers of the given type, or of decimals, rounding nothing."""
    product = terms[0]
    for f in terms[1:]:
        result = type_ or decimal(MOST_DIGITS, product.type.scale + f.type.scale)
        product = Call(result, "exact_multiply" if type_ is None else "multiply", (product, f))
    return product
