"""Aggregates carried up the join tree instead of computed from joined rows (ring annotations, CROWN 7.3).

A part of the join that only contributes to aggregates is grouped by the key that joins it to its parent, into one row
with its count, its sums, and its least and greatest values; the query above multiplies counts and sums and adds them
up. Done at every level, no tuple below is enumerated more than once for each parent it joins with. A relation that is
enumerated is grouped as well, by the columns that are read from it, if these do not identify its tuples. All this is a
rewrite of the query: the parts are separate selects, maintained like any nested query.

Sums of products (see `products`) split into a sum for each factor; where a product might not fit its type on some
row, parts also know their least and greatest factors, and the query above checks those (see `extremes`). AVG is a sum
over a count, VARIANCE and STDDEV are made of a count, a sum and a sum of squares. A sum of doubles goes up as the few
doubles that add up to it, so that it is rounded once, at the top, as if its rows had been added one by one: four of
them hold 212 binary digits, and what a part's sum has beyond those is dropped. Only what has a value on every row is
moved, whether the row finds partners or not. Parts are made where that is cheaper (see `fanout`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from freshet.aggregates import AGGREGATES, function_of
from freshet.logical.extremes import Range, extremes, multiplied, taken_apart, times
from freshet.logical.fanout import Cost, fanout
from freshet.logical.parts import Part, Parts, read
from freshet.logical.products import Product, factors, products, unsure
from freshet.logical.query import Arm, Block, Field, Grouping, Query, Relation, group_key, key
from freshet.query.attribute import Attribute, in_order
from freshet.scalar.expression import (
    AggregateCall,
    Call,
    ColumnRef,
    Expression,
    GroupRef,
    Literal,
    references,
    transform,
)
from freshet.scalar.functions import build, cast, nullable
from freshet.scalar.functions.coercion import MOST_DIGITS
from freshet.scalar.types import BIGINT, DOUBLE, Type, decimal

_COUNT = decimal(20, 0)  # holds every BIGINT
_TERMS = 4  # doubles that a sum of doubles goes up as


class Annotations:
    """The annotations of a query and, recursively, of its parts: each is computed once, even if only its cost is
    needed."""

    def __init__(self) -> None:
        self._made: dict[
            int, tuple[Query, _Annotation]
        ] = {}  # by identity, which is stable because the query is kept alive

    def of(self, query: Query) -> _Annotation:
        known = self._made.get(id(query))
        if known is None:
            known = self._made[id(query)] = query, _Annotation(query, self)
        return known[1]


def annotated(query: Query, annotations: Annotations) -> tuple[Query, str]:
    """An equivalent query with some parts grouped separately, if that pays, and a description of the choice."""
    if query.grouping is None or len(query.block.relations) < 2:
        return query, ""
    made = annotations.of(query)
    if made.why:
        return query, f"enumeration: {made.why}"
    if not made.pays:
        unchecked = f"; {made.unchecked}" if made.unchecked else ""
        saves = "and annotation would save none"
        return query, f"enumeration: a change meets {made.enumerated} joined rows, {saves}{unchecked}"
    names = "; ".join(map(made.name, made.parts))
    saved = f"a change meets {made.carried} joined rows, by enumeration {made.enumerated}"
    fits = (
        "; values that may not fit their type are checked by their least and greatest factors"
        if made.checks_fit
        else ""
    )
    return made.rewritten(), f"annotation: {names}; {saved}{fits}"


class _Annotation(Parts):
    def __init__(self, query: Query, annotations: Annotations) -> None:
        super().__init__(query)
        if self.why:
            return
        self.annotations = annotations
        self.checks_fit = False  # whether values below have to be checked
        self.calls: list[AggregateCall] = []
        self.given = [self._given(c) for c in self.grouping.aggregates] if self.parts else []
        if self.why:
            return
        self.selects = [self._select(part) for part in self.parts]
        self.why = next((why for select in self.selects if (why := annotations.of(select).why)), "")
        if self.why:
            return
        self.enumerated, self.carried = self._costs()
        self.pays = bool(self.parts) and self.carried.is_less(self.enumerated)

    @property
    def cost(self) -> Cost:
        """Joined rows per change, in the cheaper of the two ways."""
        return self.carried if self.pays else self.enumerated

    # The query above ------------------------------------------------------------------------------------------

    def rewritten(self) -> Query:
        predicates = [self._moved(p) for r in self.kept if r not in self.grouped for p in self.filters[r]]
        predicates += map(self._moved, self.checks)
        for r in self.kept:
            if self.parents[r] >= 0:
                predicates += [self._equal(r, a) for a in in_order(self.shared(r))]
        for part, select in zip(self.parts, self.selects, strict=True):
            for i, a in enumerate(part.attributes):
                value = self._moved(self.attributes.value(part.parent, a))
                predicates.append(build("eq", (value, key(part.number, i, select.fields[i]))))
        nested = [Relation(self.name(p), s, s.fields) for p, s in zip(self.parts, self.selects, strict=True)]
        keys = tuple(self._moved(k) for k in self.grouping.keys)
        having = None if self.grouping.having is None else self._told(self.grouping.having)
        return Query(
            (*map(self._relation, self.kept), *nested, *(self.query.relations[r] for r in self.in_arms)),
            Block(tuple(range(len(self.kept) + len(nested))), tuple(predicates), self._arms(self.query.block)),
            (),
            Grouping(keys, tuple(self.calls), having),
            tuple(self._told(o) for o in self.query.outputs),
            self.query.fields,
            self.query.distinct,
        )

    def _arms(self, block: Block) -> tuple[Arm, ...]:
        def moved(inner: Block) -> Block:
            numbers = tuple(self.number[r] for r in inner.relations)
            return Block(numbers, tuple(map(self._moved, inner.predicates)), self._arms(inner))

        return tuple(Arm(arm.kind, moved(arm.block)) for arm in block.arms)

    def name(self, part: Part) -> str:
        return "totals of " + ", ".join(self.query.relations[r].alias for r in part.relations)

    def _costs(self) -> tuple[Cost, Cost]:
        """Joined rows that a change meets when all are enumerated, and when parts are grouped."""

        def many(here: int, there: int) -> bool:
            return there not in self.inside and self.many(here, there, self.grouped)

        tops = {p.top: self.annotations.of(s).cost for p, s in zip(self.parts, self.selects, strict=True)}
        above = {r: p for r, p in self.parents.items() if r in self.number or r in tops}
        return fanout(self.parents, self.many), fanout(above, many, tops)

    def _relation(self, r: int) -> Relation:
        relation = self.query.relations[r]
        if r not in self.grouped:
            return relation
        fields = [relation.fields[c] for c in self.grouped[r]]
        keys = [key(0, c, f) for c, f in zip(self.grouped[r], fields, strict=True)]
        fields.append(Field(f"a{len(keys)}", BIGINT, False))
        alone = tuple(
            transform(p, lambda x: replace(x, relation=0) if isinstance(x, ColumnRef) else x) for p in self.filters[r]
        )
        select = Query(
            (relation,),
            Block((0,), alone),
            (),
            Grouping(tuple(keys), (_counted([]),), None if keys else _some(0)),
            tuple(group_key(i, f) for i, f in enumerate(fields)),
            tuple(fields),
        )
        return Relation(f"totals of {relation.alias}", select, select.fields)

    def _copies(self) -> list[Expression]:
        """The number of tuples that each row of a grouped relation represents."""
        return [
            ColumnRef(BIGINT, self.number[r], len(columns), f"a{len(columns)}", False)
            for r, columns in self.grouped.items()
        ]

    def _equal(self, r: int, attribute: Attribute) -> Expression:
        sides = (self.attributes.value(self.parents[r], attribute), self.attributes.value(r, attribute))
        return build("eq", tuple(map(self._moved, sides)))

    def _moved(self, e: Expression) -> Expression:
        def moved(x: Expression) -> Expression:
            if not isinstance(x, ColumnRef):
                return x
            grouped = self.grouped.get(x.relation)
            column = x.column if grouped is None else grouped.index(x.column)
            return replace(x, relation=self.number[x.relation], column=column)

        return transform(e, moved)

    # Aggregates -----------------------------------------------------------------------------------------------

    def _told(self, e: Expression) -> Expression:
        """An expression over groups."""
        keys = len(self.grouping.keys)

        def told(x: Expression) -> Expression:
            return self.given[x.column - keys] if isinstance(x, GroupRef) and x.column >= keys else x

        return transform(e, told)

    def _above(self, call: AggregateCall) -> Expression:
        """An aggregate of the query above."""
        if call not in self.calls:
            self.calls.append(call)
        place = len(self.grouping.keys) + self.calls.index(call)
        return GroupRef(call.type, place, f"a{place}", True)

    def _given(self, call: AggregateCall) -> Expression:
        """What the query shows as an aggregate, from aggregates over rows in which parts stand for all their tuples."""
        if call.distinct or function_of(call).idempotent:  # the number of copies of a value does not matter
            hidden = next((self.inside[r] for r in read(call) if r in self.inside), None)
            if hidden is None:
                return self._above(call.mapped(self._moved))
            if len(read(call)) > 1:
                return self._above(replace(call, args=(self._extreme(call),)))
            return self._above(replace(call, args=(self._asked(hidden, call),), filter=None))
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
        counts = [*self._copies(), *(self._asked(p, _counted(self._inside(p, conditions))) for p in self.parts)]
        value = _product(counts, BIGINT)
        if function_of(call).counts:
            for a in call.args:
                value = self._fitting(a, value, ())
        return self._above(AggregateCall("sum", (value,), BIGINT, filter=self._outside(conditions)))

    def _factors(self, argument: Expression) -> list[Expression]:
        """The expressions that must not be NULL for the argument to have a value."""
        return factors(self._products(argument))

    def _products(self, argument: Expression) -> tuple[Product, ...]:
        found = products(argument) if any(r in self.inside for r in references(argument)) else None
        return (Product(False, (argument,)),) if found is None else found

    def _inside(self, part: Part, expressions: Sequence[Expression]) -> list[Expression]:
        return [e for e in expressions if any(self.inside.get(r) is part for r in references(e))]

    def _outside(self, conditions: Sequence[Expression]) -> Expression | None:
        return _all([self._moved(c) for c in conditions if not any(r in self.inside for r in references(c))])

    def _number_of(self, part: Part, conditions: Sequence[Expression]) -> Expression:
        """The number of a part's tuples that count. NULL means none: then the row above has no value."""
        counted = self._asked(part, _counted(conditions))
        return build("nullif", (counted, Literal(BIGINT, 0))) if conditions else counted

    def _sum(self, call: AggregateCall, conditions: Sequence[Expression]) -> AggregateCall:
        found = self._products(call.args[0])
        known = [build("is_not_null", (f,)) for f in factors(found) if nullable(f)]
        total: Expression | None = None
        absent: dict[Expression, None] = {}  # parts without a tuple that counts
        for product in found:
            terms: list[Expression] = [Literal(decimal(1, 0), -1)] if product.negative else []
            terms += [
                _as_decimal(self._moved(f)) for f in product.factors if not any(r in self.inside for r in references(f))
            ]
            counts = self._copies()
            for part in self.parts:
                mine = self._inside(part, [*conditions, *known])
                own = [_as_decimal(f) for f in self._inside(part, product.factors)]
                if own:
                    terms.append(self._asked(part, _summed(_product(own, None), _all(mine))))
                else:
                    counts.append(self._number_of(part, mine))
                    absent |= dict.fromkeys(build("is_null", (counts[-1],)) for _ in mine[:1])
            if counts:
                terms.append(cast(_product(counts, BIGINT), _COUNT))
            value = _product(terms, None)
            total = value if total is None else _added(total, value)
        assert total is not None
        if absent:  # then the others need not fit anything
            branches = (e for a in absent for e in (a, Literal(total.type, None)))
            total = Call(total.type, "case", (*branches, total))
        return _summed(self._fitting(call.args[0], total, conditions), self._outside(conditions))

    def _fitting(self, argument: Expression, value: Expression, conditions: Sequence[Expression]) -> Expression:
        """The value above, where all that the argument computes on the rows below fits its types. Rows that a condition
        leaves out are not computed at all."""
        if not any(r in self.inside for r in references(argument)) or products(argument) is None:
            return value  # it is computed as it stands
        for e in unsure(argument):
            exact = self._has_exact_extremes(e)
            if not exact and e.type.name in ("TINYINT", "SMALLINT", "INT"):  # whose limits real data come near to
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
        found = products(e)
        if len(references(e)) <= 1 or (found is not None and len(found) == 1) or not isinstance(e, Call):
            return True
        sides = [{self.inside[r].number for r in references(a) if r in self.inside} for a in e.args]
        apart = all(not (a & b) for i, a in enumerate(sides) for b in sides[:i])
        return apart and all(map(self._has_exact_extremes, e.args))

    def _ranges(self, own: Sequence[Expression], conditions: Sequence[Expression]) -> list[Range]:
        """Of the product of those expressions that read each part, the least and the greatest value there."""
        found: list[Range] = []
        for part in self.parts:
            mine = self._inside(part, own)
            if mine:
                value, only = multiplied(mine), _all(self._inside(part, conditions))
                low, high = (AggregateCall(f, (value,), value.type, filter=only) for f in ("min", "max"))
                found.append((self._asked(part, low), self._asked(part, high)))
        return found

    def _extreme(self, call: AggregateCall) -> Expression:
        """The least or greatest product of factors of several relations on the rows below one above."""
        inside, (value,) = self.inside, call.args
        mine = [f for f in taken_apart(value) if any(r in inside for r in references(f))]
        outside = [self._moved(f) for f in taken_apart(value) if not any(r in inside for r in references(f))]
        ranges = [*((f, f) for f in outside), *self._ranges(mine, ())]
        return reduce(times, ranges)[function_of(call).greatest is True]

    def _sum_of_doubles(self, call: AggregateCall, conditions: Sequence[Expression]) -> AggregateCall:
        owner = next((self.inside[r] for r in references(call.args[0]) if r in self.inside), None)
        counts = self._copies()
        args: tuple[Expression, ...] = () if owner is not None else tuple(map(self._moved, call.args))
        for part in self.parts:
            mine = self._inside(part, conditions)
            if part is owner:
                whole = AggregateCall("sum", call.args, DOUBLE, filter=_all(mine))
                args = tuple(self._asked(part, replace(whole, term=i)) for i in range(_TERMS))
            else:
                counts.append(self._number_of(part, mine))
        copies = _product(counts, BIGINT) if counts else None
        return AggregateCall("sum", args, DOUBLE, False, self._outside(conditions), copies=copies, term=call.term)

    def _asked(self, part: Part, call: AggregateCall) -> Expression:
        place = part.column(call)
        return ColumnRef(call.type, part.number, place, f"a{place}", not function_of(call).counts)

    # The parts ------------------------------------------------------------------------------------------------

    def _select(self, part: Part) -> Query:
        """The part's aggregates by the key it hangs on."""
        number = {r: i for i, r in enumerate(part.relations)}

        def moved(e: Expression) -> Expression:
            return transform(e, lambda x: replace(x, relation=number[x.relation]) if isinstance(x, ColumnRef) else x)

        predicates = [p for r in part.relations for p in self.filters[r]]
        for r in part.relations:
            if r != part.top:
                for a in in_order(self.shared(r)):
                    sides = (self.attributes.value(self.parents[r], a), self.attributes.value(r, a))
                    predicates.append(build("eq", sides))
        keys = [moved(self.attributes.value(part.top, a)) for a in part.attributes]
        having = None if keys else _some(part.column(_counted([])))
        calls = [c.mapped(moved) for c in part.calls]
        names = [k.name if isinstance(k, ColumnRef) else f"k{i}" for i, k in enumerate(keys)]
        fields = [Field(n, k.type, nullable(k)) for n, k in zip(names, keys, strict=True)]
        fields += [Field(f"a{len(keys) + i}", c.type, not function_of(c).counts) for i, c in enumerate(calls)]
        return Query(
            tuple(self.query.relations[r] for r in part.relations),
            Block(tuple(range(len(part.relations))), tuple(map(moved, predicates))),
            (),
            Grouping(tuple(keys), tuple(calls), having),
            tuple(group_key(i, f) for i, f in enumerate(fields)),
            tuple(fields),
        )


def _some(count: int) -> Expression:
    """Whether there are rows at all, by their count at this place: a total without keys is there even of none."""
    return build("gt", (GroupRef(BIGINT, count, f"a{count}", False), Literal(BIGINT, 0)))


def _counted(conditions: Sequence[Expression]) -> AggregateCall:
    return AggregateCall("count", (), BIGINT, filter=_all(conditions))


def _summed(value: Expression, condition: Expression | None) -> AggregateCall:
    return AggregateCall("sum", (value,), AGGREGATES["sum"].type([value.type]), filter=condition)


def _conditions(call: AggregateCall) -> list[Expression]:
    return [] if call.filter is None else [call.filter]


def _all(conditions: Sequence[Expression]) -> Expression | None:
    found = None
    for c in conditions:
        found = c if found is None else build("and", (found, c))
    return found


def _as_decimal(e: Expression) -> Expression:
    """Integers as decimals: no sum or product of theirs overflows before the whole does."""
    return cast(e, _COUNT) if e.type.is_integer else e


def _added(a: Expression, b: Expression) -> Expression:
    return Call(decimal(MOST_DIGITS, max(a.type.scale, b.type.scale)), "exact_add", (a, b))


def _product(terms: Sequence[Expression], type_: Type | None) -> Expression:
    """Of integers of the given type, or of decimals, rounding nothing."""
    found = terms[0]
    for f in terms[1:]:
        result = type_ or decimal(MOST_DIGITS, found.type.scale + f.type.scale)
        found = Call(result, "exact_multiply" if type_ is None else "multiply", (found, f))
    return found
