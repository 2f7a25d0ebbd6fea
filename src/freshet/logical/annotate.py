"""Aggregates carried up the join tree instead of computed from joined rows (ring annotations, CROWN 7.3).

A part of the join that only contributes to aggregates is grouped by the key that joins it to its parent, into one row
with its count, its sums, and its least and greatest values; the query above multiplies counts and sums and adds them
up. Done at every level, no tuple below is enumerated more than once for each parent it joins with. A relation that is
enumerated is grouped as well, by the columns that are read from it, if these do not identify its tuples. All this is a
rewrite of the query: the parts are separate selects, maintained like any nested query.

`totals` combines the aggregates. Only expressions that have a value on every row are moved, because rows without
partners are included. Parts are made where that is cheaper (see `fanout`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from freshet.logical.distinct_groups import as_counted
from freshet.logical.fanout import Cost, fanout
from freshet.logical.kinds import JoinKind
from freshet.logical.outer_parts import or_nothing, renumbered
from freshet.logical.parts import Parts, Subtree
from freshet.logical.query import Arm, Block, Field, Grouping, Query, Relation, group_key, key
from freshet.logical.totals import Totals, count_of, some
from freshet.query.attribute import Attribute, in_order
from freshet.scalar.expression import AggregateCall, ColumnRef, Expression, GroupRef, transform
from freshet.scalar.functions import build
from freshet.scalar.types import BIGINT


def weighted(query: Query, annotations: Annotations) -> tuple[Query, str] | None:
    """A query in which parts of the join that contribute no outputs are replaced by their counts: each of its rows
    represents that many copies. None if that would not save joined rows."""
    groups = as_counted(query)
    if groups is None or any(arm.kind is JoinKind.LEFT for arm in query.block.arms):
        return None
    made = _Weights(groups, annotations)
    if made.why or not made.pays:
        return None
    names = "; ".join(map(made.name, made.parts))
    saved = f"a change meets {made.carried} joined rows, by enumeration {made.enumerated}"
    return made.rewritten(), f"weighted: a row counts as often as {names} say; {saved}"


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
    if query.grouping is None or len(query.block.relations) + len(query.block.arms) < 2:
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


class _Annotation(Parts, Totals[Subtree]):
    def __init__(self, query: Query, annotations: Annotations) -> None:
        super().__init__(query)
        if self.why:
            return
        self.annotations = annotations
        self.calls: list[AggregateCall] = []  # of the query above
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
        relations, block = self.joined()
        keys = tuple(self._moved(k) for k in self.grouping.keys)
        having = None if self.grouping.having is None else self._over_groups(self.grouping.having)
        return Query(
            relations,
            block,
            tuple(map(self._moved, self.query.where)),
            Grouping(keys, tuple(self.calls), having),
            tuple(self._over_groups(o) for o in self.query.outputs),
            self.query.fields,
            self.query.distinct,
        )

    def joined(self) -> tuple[tuple[Relation, ...], Block]:
        """The relations that are enumerated, with each part as one relation."""
        predicates = [self._moved(p) for r in self.kept if r not in self.grouped for p in self.filters[r]]
        predicates += map(self._moved, self.checks)
        for r in self.kept:
            if self.parents[r] >= 0:
                predicates += [self._equal(r, a) for a in in_order(self.shared(r))]
        for part, select in zip(self.parts, self.selects, strict=True):
            if part.outer is None:
                values = (self.attributes.value(part.parent, a) for a in part.attributes)
                predicates += self._meets(part, select, values)
        nested = [Relation(self.name(p), s, s.fields) for p, s in zip(self.parts, self.selects, strict=True)]
        relations = (*map(self._relation, self.kept), *nested, *(self.query.relations[r] for r in self.in_arms))
        numbers = (*range(len(self.kept)), *(p.number for p in self.parts if p.outer is None))
        return relations, Block(numbers, tuple(predicates), tuple(self._arms()))

    def _meets(self, part: Subtree, select: Query, values: Iterable[Expression]) -> list[Expression]:
        """The conditions that join the row of a part: its keys are equal to values of the part's parent."""
        pairs = enumerate(map(self._moved, values))
        return [build("eq", (value, key(part.number, i, select.fields[i]))) for i, value in pairs]

    def _arms(self) -> Iterator[Arm]:
        totals = {id(p.outer.arm): (p, s) for p, s in zip(self.parts, self.selects, strict=True) if p.outer is not None}
        for arm in self.query.block.arms:
            if id(arm) in totals:
                part, select = totals[id(arm)]
                assert part.outer is not None
                yield Arm(arm.kind, Block((part.number,), tuple(self._meets(part, select, part.outer.meets))))
            elif arm.block.relations[0] not in self.inside:
                yield self._arm(arm)

    def _arm(self, arm: Arm) -> Arm:
        numbers = tuple(self.number[r] for r in arm.block.relations)
        below = tuple(map(self._arm, arm.block.arms))
        return Arm(arm.kind, Block(numbers, tuple(map(self._moved, arm.block.predicates)), below))

    @property
    def counts(self) -> list[ColumnRef]:
        """The number of tuples in the rows of each part."""
        counted = [self._requested(part, count_of([])) for part in self.parts]
        return [c for c in counted if isinstance(c, ColumnRef)]

    def name(self, part: Subtree) -> str:
        return "totals of " + ", ".join(self.query.relations[r].alias for r in part.relations)

    def _costs(self) -> tuple[Cost, Cost]:
        """The number of joined rows affected by a change: if all are enumerated, and if parts are grouped."""

        def many(here: int, there: int) -> bool:
            return there not in self.inside and self.many(here, there, self.grouped)

        tops = {p.top: self.annotations.of(s).cost for p, s in zip(self.parts, self.selects, strict=True)}
        whole = self.parents | {o.top: o.parent for o in self.outer}
        above = {r: p for r, p in whole.items() if r in self.number or r in tops}
        return fanout(whole, self.many), fanout(above, many, tops)

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
            Grouping(tuple(keys), (count_of([]),), None if keys else some(0)),
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

    def _over_groups(self, e: Expression) -> Expression:
        """An expression over groups, with aggregates replaced by their results."""
        keys = len(self.grouping.keys)

        def result(x: Expression) -> Expression:
            return self.given[x.column - keys] if isinstance(x, GroupRef) and x.column >= keys else x

        return transform(e, result)

    def _above(self, call: AggregateCall) -> Expression:
        """An aggregate of the query above."""
        if call not in self.calls:
            self.calls.append(call)
        place = len(self.grouping.keys) + self.calls.index(call)
        return GroupRef(call.type, place, f"a{place}", True)

    # The parts ------------------------------------------------------------------------------------------------

    def _select(self, part: Subtree) -> Query:
        """The part's aggregates by the key it is attached to."""
        number = {r: i for i, r in enumerate(part.within())}

        def moved(e: Expression) -> Expression:
            return transform(e, lambda x: replace(x, relation=number[x.relation]) if isinstance(x, ColumnRef) else x)

        if part.outer is not None:
            keys, block = part.outer.keys, part.outer.alone
        else:
            predicates = [p for r in part.relations for p in self.filters[r]]
            for r in part.relations:
                if r != part.top:
                    for a in in_order(self.shared(r)):
                        sides = (self.attributes.value(self.parents[r], a), self.attributes.value(r, a))
                        predicates.append(build("eq", sides))
            keys = [self.attributes.value(part.top, a) for a in part.attributes]
            block = Block(tuple(part.relations), tuple(predicates), tuple(o.arm for o in part.attached))
        return part.select([self.query.relations[r] for r in number], renumbered(block, number), keys, moved)

    def _requested(self, part: Subtree, call: AggregateCall) -> Expression:
        value = super()._requested(part, call)
        if part.outer is None:
            return value
        count = super()._requested(part, count_of([]))
        value, count = (replace(c, nullable=True) for c in (value, count) if isinstance(c, ColumnRef))
        return or_nothing(call, value, count, part.relations)


class _Weights(_Annotation):
    """An annotation without groups above the parts: each joined row is a row of the answer."""

    def _collapsed(self, r: int) -> None:
        return None

    def rewritten(self) -> Query:
        relations, block = self.joined()
        outputs = tuple(map(self._moved, self.query.outputs))
        return Query(relations, block, (), None, outputs, self.query.fields, copies=tuple(self.counts))
