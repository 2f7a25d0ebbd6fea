"""Aggregates carried up the join tree instead of computed from joined rows (ring annotations, CROWN 7.3).

A part of the join that shows nothing but how much it contributes is grouped by the key it hangs on, into one row with
its count, its sums, its least and greatest values; the query above multiplies counts and sums and adds up. Done at
every level, no tuple below is enumerated more than once for each parent it meets. A relation that is enumerated is
grouped as well, by the columns that are read of it, where these do not tell its tuples apart. All this is a rewrite of
the query: the parts are selects of their own, kept like any nested query.

It pays where rows multiply: on an edge with many tuples at both ends, or with many at one, below a tuple that has many
of something else too. Where keys make each tuple meet at most one other, enumeration is cheaper, and stays. Only what
is exact and cannot fail is moved: integers and decimals, expressions that have a value on every row, whether it finds
partners or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from freshet.plans.attributes import Attributes, equality
from freshet.query import Hypergraph
from freshet.sql.bound import GROUP, Block, Field, Grouping, Query, Relation, TableSchema, key
from freshet.sql.expression import AggregateCall, Call, ColumnRef, Expression, Literal, references, transform, walk
from freshet.sql.functions import build, cast, nullable
from freshet.sql.functions.coercion import MOST_DIGITS, aggregate_type
from freshet.sql.functions.compiled import is_total
from freshet.types import BIGINT, Type, decimal

_COUNT = decimal(20, 0)  # holds every BIGINT


class _EnumeratedError(Exception):
    """The query is better left as it is."""


def annotated(query: Query) -> Query | None:
    """The query with parts grouped on their own, if some pay; the answer is the same."""
    try:
        return _Annotation(query).rewritten()
    except _EnumeratedError:
        return None


@dataclass(slots=True)
class _Part:
    """A subtree that becomes a select of its own: what it is asked for."""

    relations: list[int]
    top: int
    parent: int
    attributes: list[str]
    number: int = -1  # as a relation of the query above
    calls: list[AggregateCall] = field(default_factory=list)

    def column(self, call: AggregateCall) -> int:
        if call not in self.calls:
            self.calls.append(call)
        return len(self.attributes) + self.calls.index(call)


class _Annotation:
    def __init__(self, query: Query) -> None:
        block = query.block
        if query.grouping is None or block.arms or query.where or len(block.relations) < 2:
            raise _EnumeratedError
        self.query, self.grouping, self.relations = query, query.grouping, block.relations
        self.filters: dict[int, list[Expression]] = {r: [] for r in block.relations}
        pairs = []
        for p in block.predicates:
            pair, read = equality(p), references(p)
            if len(read) == 1:
                self.filters[next(iter(read))].append(p)
            elif pair is not None and not pair[2]:
                pairs.append(pair)
            else:
                raise _EnumeratedError
        self.attributes = Attributes(pairs)
        for r in self.relations:
            self.filters[r] += self.attributes.own_filter(r)
        h = Hypergraph(tuple(self.attributes.of(r) for r in self.relations), frozenset())
        if not h.is_acyclic or len(h.components) > 1:
            raise _EnumeratedError
        self.shown = self._shown()
        self.parents = self._tree()
        self.parts: list[_Part] = []
        self._split(self.relations_down[0])
        if not self.parts:
            raise _EnumeratedError

    # Which parts ----------------------------------------------------------------------------------------------

    def _shown(self) -> set[int]:
        """Relations that have to be enumerated: those of the keys, and of what is no product of parts."""
        found = {r for k in self.grouping.keys for r in references(k)}
        for call in self.grouping.aggregates:
            read = _read(call)
            if call.distinct:
                found |= read
            elif call.function in ("min", "max"):
                if len(read) > 1 or not _is_certain(call):
                    found |= read
            elif call.function not in ("count", "sum"):
                raise _EnumeratedError
            elif call.function == "sum" and not (call.type.is_integer or call.type.name == "DECIMAL"):
                raise _EnumeratedError  # doubles are added exactly, which a product is not
            elif not _is_certain(call) or (len(read) > 1 and (call.filter is not None or not _is_product(call))):
                found |= read
        return found

    def _tree(self) -> dict[int, int]:
        """Parents in a join tree whose root is shown, if any relation is: a spanning tree of most shared attributes."""
        attributes = {r: self.attributes.of(r) for r in self.relations}
        root = min(self.shown, default=self.relations[0])
        parents, order = {root: -1}, [root]
        while len(order) < len(self.relations):
            _, at, least = max(
                (len(attributes[p] & attributes[r]), -i, -r)
                for i, p in enumerate(order)
                for r in self.relations
                if r not in parents
            )
            parents[-least] = order[-at]
            order.append(-least)
        self.relations_down = order
        return parents

    def _children(self, r: int) -> list[int]:
        return [c for c in self.relations_down if self.parents[c] == r]

    def _below(self, r: int) -> Iterator[int]:
        yield r
        for c in self._children(r):
            yield from self._below(c)

    def _many(self, here: int, there: int) -> bool:
        """Whether a tuple here may meet many there."""
        shared = self.attributes.of(here) & self.attributes.of(there)
        columns = {e.column for a in shared if isinstance(e := self.attributes.value(there, a), ColumnRef)}
        identity = _identity(self.query.relations[there])
        return identity is None or not identity <= columns

    def _split(self, r: int) -> None:
        near = [*self._children(r), *([self.parents[r]] if self.parents[r] >= 0 else [])]
        many = [n for n in near if self._many(r, n)]
        for c in self._children(r):
            below = list(self._below(c))
            multiplies = c in many and (len(many) > 1 or self._many(c, r))
            if multiplies and not self.shown & {*below}:
                shared = self.attributes.of(r) & self.attributes.of(c)
                self.parts.append(_Part(below, c, r, sorted(shared)))
            else:
                self._split(c)

    # The query above ------------------------------------------------------------------------------------------

    def rewritten(self) -> Query:
        inside = {r: part for part in self.parts for r in part.relations}
        kept = [r for r in self.relations if r not in inside]
        self.number = {r: i for i, r in enumerate(kept)}
        for i, part in enumerate(self.parts):
            part.number = len(kept) + i
        self.grouped = {r: columns for r in kept if (columns := self._collapsed(r)) is not None}
        calls = [self._call(c, inside) for c in self.grouping.aggregates]
        predicates = [self._moved(p) for r in kept if r not in self.grouped for p in self.filters[r]]
        for r in kept:
            if self.parents[r] >= 0:
                predicates += [self._equal(r, a) for a in sorted(self._shared(r))]
        selects = [self._select(part) for part in self.parts]
        for part, select in zip(self.parts, selects, strict=True):
            for i, a in enumerate(part.attributes):
                value = self._moved(self.attributes.value(part.parent, a))
                predicates.append(build("eq", (value, key(part.number, i, select.fields[i]))))
        names = [", ".join(self.query.relations[r].alias for r in part.relations) for part in self.parts]
        nested = [Relation(f"totals of {n}", s, s.fields) for n, s in zip(names, selects, strict=True)]
        keys = tuple(self._moved(k) for k in self.grouping.keys)
        having = None if self.grouping.having is None else self._told(self.grouping.having, calls)
        return Query(
            (*(self._relation(r) for r in kept), *nested),
            Block(tuple(range(len(kept) + len(nested))), tuple(predicates)),
            (),
            Grouping(keys, tuple(calls), having),
            tuple(self._told(o, calls) for o in self.query.outputs),
            self.query.fields,
            self.query.distinct,
        )

    def _collapsed(self, r: int) -> list[int] | None:
        """The columns read of a relation above, if tuples with the same values of them can stand together."""
        expressions = [e for e in self.grouping.keys if r in references(e)]
        for call in self.grouping.aggregates:
            expressions += [
                e for e in (*call.args, *([] if call.filter is None else [call.filter])) if r in references(e)
            ]
        expressions += [self.attributes.value(r, a) for a in self.attributes.of(r)]
        used = {c.column for e in expressions for c in walk(e) if isinstance(c, ColumnRef) and c.relation == r}
        identity = _identity(self.query.relations[r])
        if len(used) == len(self.query.relations[r].fields) or (identity is not None and identity <= used):
            return None
        return sorted(used)

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
            Grouping(tuple(keys), (_counted([]),)),
            tuple(key(GROUP, i, f) for i, f in enumerate(fields)),
            tuple(fields),
        )
        return Relation(f"totals of {relation.alias}", select, select.fields)

    def _copies(self) -> list[Expression]:
        """How many tuples each row of a grouped relation stands for."""
        return [
            ColumnRef(BIGINT, self.number[r], len(columns), f"a{len(columns)}", False)
            for r, columns in self.grouped.items()
        ]

    def _shared(self, r: int) -> frozenset[str]:
        return self.attributes.of(r) & self.attributes.of(self.parents[r])

    def _equal(self, r: int, attribute: str) -> Expression:
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

    def _told(self, e: Expression, calls: Sequence[AggregateCall]) -> Expression:
        """An expression over groups, where aggregates keep their places but not all their types."""
        keys = len(self.grouping.keys)

        def told(x: Expression) -> Expression:
            if not isinstance(x, ColumnRef) or x.relation != GROUP or x.column < keys:
                return x
            before, now = self.grouping.aggregates[x.column - keys], calls[x.column - keys]
            if before == now:
                return x
            found: Expression = ColumnRef(now.type, GROUP, x.column, x.name, True)
            if before.function == "count":  # of nothing it is 0, and a sum is NULL
                return build("coalesce", (found, Literal(BIGINT, 0)))
            return cast(found, before.type)

        return transform(e, told)

    def _call(self, call: AggregateCall, inside: dict[int, _Part]) -> AggregateCall:
        """The aggregate over rows in which parts stand for all of their tuples."""
        if call.distinct or call.function in ("min", "max"):  # how often a value stands there does not matter
            hidden = next((inside[r] for r in _read(call) if r in inside), None)
            if hidden is not None:
                return replace(call, args=(self._asked(hidden, call),), filter=None)
            kept = None if call.filter is None else self._moved(call.filter)
            return replace(call, args=tuple(map(self._moved, call.args)), filter=kept)
        return self._count(call, inside) if call.function == "count" else self._sum(call, inside)

    def _count(self, call: AggregateCall, inside: dict[int, _Part]) -> AggregateCall:
        conditions = [] if call.filter is None else [call.filter]
        conditions += [build("is_not_null", (a,)) for a in call.args if nullable(a)]
        counts = self._copies()
        for part in self.parts:
            mine = [c for c in conditions if any(inside.get(r) is part for r in references(c))]
            counts.append(self._asked(part, _counted(mine)))
        above = [self._moved(c) for c in conditions if not any(r in inside for r in references(c))]
        return AggregateCall("sum", (_product(counts, BIGINT),), BIGINT, filter=_all(above))

    def _sum(self, call: AggregateCall, inside: dict[int, _Part]) -> AggregateCall:
        factors: list[Expression] = []
        hidden: dict[int, list[Expression]] = {}  # by the part's top
        for f in _factors(call.args[0]):
            owner = next((inside[r] for r in references(f) if r in inside), None)
            if owner is None:
                factors.append(_as_decimal(self._moved(f)))
            else:
                hidden.setdefault(owner.top, []).append(_as_decimal(f))
        # A condition reads the relation that is summed, or none.
        above = None if call.filter is None or any(r in inside for r in references(call.filter)) else call.filter
        counts = self._copies()
        for part in self.parts:
            if part.top in hidden:
                total = _summed(_product(hidden[part.top], None), None if above is not None else call.filter)
                factors.append(self._asked(part, total))
            else:
                counts.append(self._asked(part, _counted([])))
        if counts:
            factors.append(cast(_product(counts, BIGINT), _COUNT))
        return _summed(_product(factors, None), None if above is None else self._moved(above))

    def _asked(self, part: _Part, call: AggregateCall) -> Expression:
        place = part.column(call)
        return ColumnRef(call.type, part.number, place, f"a{place}", call.function != "count")

    # The parts ------------------------------------------------------------------------------------------------

    def _select(self, part: _Part) -> Query:
        """The part's aggregates by the key it hangs on."""
        number = {r: i for i, r in enumerate(part.relations)}

        def moved(e: Expression) -> Expression:
            return transform(e, lambda x: replace(x, relation=number[x.relation]) if isinstance(x, ColumnRef) else x)

        predicates = [p for r in part.relations for p in self.filters[r]]
        for r in part.relations:
            if r != part.top:
                for a in sorted(self._shared(r)):
                    sides = (self.attributes.value(self.parents[r], a), self.attributes.value(r, a))
                    predicates.append(build("eq", sides))
        keys = [moved(self.attributes.value(part.top, a)) for a in part.attributes]
        calls = [
            replace(c, args=tuple(map(moved, c.args)), filter=None if c.filter is None else moved(c.filter))
            for c in part.calls
        ]
        fields = [Field(f"k{i}", k.type, nullable(k)) for i, k in enumerate(keys)]
        fields += [Field(f"a{len(keys) + i}", c.type, c.function != "count") for i, c in enumerate(calls)]
        return Query(
            tuple(self.query.relations[r] for r in part.relations),
            Block(tuple(range(len(part.relations))), tuple(map(moved, predicates))),
            (),
            Grouping(tuple(keys), tuple(calls)),
            tuple(key(GROUP, i, f) for i, f in enumerate(fields)),
            tuple(fields),
        )


def _identity(relation: Relation) -> set[int] | None:
    """Columns no two tuples agree on, if such are known."""
    source = relation.source
    if isinstance(source, TableSchema):
        return set(source.primary_key) or None
    if isinstance(source, Query) and source.grouping is not None:
        places = {o.column: i for i, o in enumerate(source.outputs) if isinstance(o, ColumnRef)}
        keys = range(len(source.grouping.keys))
        return {places[k] for k in keys} if all(k in places for k in keys) else None
    return None


def _is_product(call: AggregateCall) -> bool:
    """Whether a sum's argument is a product of factors that read one relation each."""
    return call.function == "sum" and all(len(references(f)) <= 1 and is_total(f) for f in _factors(call.args[0]))


def _factors(e: Expression) -> Iterator[Expression]:
    """What a product of decimals is made of, where multiplying rounds nothing and cannot overflow."""
    if isinstance(e, Call) and e.name == "multiply" and e.type.name == "DECIMAL" and len(references(e)) > 1:
        a, b = e.args
        if a.type.precision + b.type.precision + 1 <= MOST_DIGITS and e.type.scale == a.type.scale + b.type.scale:
            yield from _factors(a)
            yield from _factors(b)
            return
    yield e


def _is_certain(call: AggregateCall) -> bool:
    return all(map(is_total, call.args)) and (call.filter is None or is_total(call.filter))


def _read(call: AggregateCall) -> set[int]:
    return {r for e in (*call.args, *([] if call.filter is None else [call.filter])) for r in references(e)}


def _counted(conditions: Sequence[Expression]) -> AggregateCall:
    return AggregateCall("count", (), BIGINT, filter=_all(conditions))


def _summed(value: Expression, condition: Expression | None) -> AggregateCall:
    return AggregateCall("sum", (value,), aggregate_type("sum", [value.type]), filter=condition)


def _all(conditions: Sequence[Expression]) -> Expression | None:
    found = None
    for c in conditions:
        found = c if found is None else build("and", (found, c))
    return found


def _as_decimal(e: Expression) -> Expression:
    """Integers as decimals: no sum or product of theirs overflows before the whole does."""
    return cast(e, _COUNT) if e.type.is_integer else e


def _product(factors: Sequence[Expression], type_: Type | None) -> Expression:
    """Of integers of the given type, or of decimals, rounding nothing."""
    found = factors[0]
    for f in factors[1:]:
        result = type_ or decimal(MOST_DIGITS, found.type.scale + f.type.scale)
        found = Call(result, "multiply", (found, f))
    return found
