"""GROUP BY as a join of totals: each group is one joined row, so groups are enumerated from the join tree, not stored.

Relations that share a join attribute that is not a group key belong together. Grouped by the keys that it shows or
shares with others, such a part of the join is one relation of totals, with one row for each value of its keys. What
parts have in common are keys alone, so the group of given keys is exactly one joined row of totals: counts multiply,
and a sum is multiplied by the counts of the other parts (CROWN 7.3; `totals`). GROUP BY becomes a projection of the
join of totals, HAVING a condition on its rows. A relation whose tuples are rows of totals already is read as it is.

This pays where there may be more groups than tuples: where no relation's tuple decides the whole key. State stays
linear if in each part one relation's tuple decides the part's keys, and the join of totals has a tree: if the query is
free-connex, primary keys taken into account.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from freshet.aggregates import function_of
from freshet.logical.clusters import Cluster, Clusters, is_end
from freshet.logical.query import Arm, Block, Grouping, Query, Relation
from freshet.logical.separable import splits
from freshet.logical.totals import Totals, read
from freshet.query.attribute import in_order
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
from freshet.scalar.functions import build, cast
from freshet.scalar.functions.compiled import is_total
from freshet.scalar.types import BIGINT, INT


@dataclass(frozen=True, slots=True)
class Factorised:
    """A query as a join of totals. `key`: the outputs that are the keys of groups, if all are shown. `words`: what was
    done."""

    query: Query
    key: tuple[int, ...]
    words: str


def factorised(query: Query) -> Factorised | str:
    """The query as a join of totals; or why its groups are stored: "" if they are few."""
    grouping = query.grouping
    if grouping is None or not grouping.keys or len([*query.block.within()]) < 2:
        return ""
    made = _Factors(query, grouping)
    if made.why or not made.pays:
        return made.why
    words = f"factorised: each group is one joined row of {made.listed()}, enumerated and not stored"
    return Factorised(made.rewritten(), () if query.distinct else _shown(query.outputs, len(grouping.keys)), words)


def _shown(outputs: Sequence[Expression], keys: int) -> tuple[int, ...]:
    places = {o.column: place for place, o in reversed([*enumerate(outputs)]) if isinstance(o, GroupRef)}
    return tuple(places[k] for k in range(keys)) if all(k in places for k in range(keys)) else ()


class _Factors(Clusters, Totals[Cluster]):
    def __init__(self, query: Query, grouping: Grouping) -> None:
        super().__init__(query, grouping)
        if self.clusters and not self.why:
            self.given = [self._single(call) for call in grouping.aggregates]

    # Aggregates -----------------------------------------------------------------------------------------------

    def _single(self, call: AggregateCall) -> Expression:
        """An aggregate of the group, from the one row of totals that it is."""
        function, clusters = function_of(call), {self.of[r].number for r in read(call)}
        part = self.inside.get(min(read(call), default=-1)) if len(clusters) == 1 else None
        local = part is not None and all(map(is_total, call.reads))
        if call.distinct or function.idempotent:  # how often a value occurs does not matter
            if part is not None and local:
                return self._requested(part, call)
            if not any(r in self.inside for r in read(call)):
                return self._above(call.mapped(self._moved))
        elif function.carries(call) and (local or splits(call) or not any(r in self.inside for r in read(call))):
            return function.carried(call, self)
        self.why = self.why or f"{call.function.upper()} needs each joined row"
        return Literal(call.type, None)

    def _above(self, call: AggregateCall) -> Expression:
        """The aggregate of one row."""
        value = call.args[0] if call.args else Literal(call.type, None)
        if call.function == "sum" and call.type.is_fraction:
            copies = Literal(BIGINT, 1) if call.copies is None else call.copies
            value = Call(call.type, "exact_total", (copies, *call.args, Literal(INT, call.term)))
        elif call.function == "sum":
            value = cast(value, call.type)
        elif not is_end(call):
            self.why = self.why or f"{call.function.upper()} needs each joined row"
        return value if call.filter is None else Call(call.type, "case", (call.filter, value, Literal(call.type, None)))

    def _moved(self, e: Expression) -> Expression:
        def moved(x: Expression) -> Expression:
            return replace(x, relation=self.number[x.relation]) if isinstance(x, ColumnRef) else x

        return transform(e, moved)

    # The query ------------------------------------------------------------------------------------------------

    def listed(self) -> str:
        return ", ".join(self._alias(c) for c in sorted(self.clusters, key=lambda c: c.number))

    def rewritten(self) -> Query:
        clusters = sorted(self.clusters, key=lambda c: c.number)
        predicates = [self._moved(p) for c in clusters if c.kept for p in self.filters[c.relations[0]]]
        for a in in_order(self.output):
            sides = [self._key(c, c.attributes[a]) for c in clusters if a in c.attributes]
            predicates += [build("eq", pair) for pair in pairwise(sides)]
        predicates += [self._of_keys(p) for p in self.checks if len({self.of[r].number for r in references(p)}) != 1]
        having = () if self.grouping.having is None else (self._of_groups(self.grouping.having),)
        return Query(
            tuple(self._relation(c) for c in clusters),
            Block(tuple(range(len(clusters))), tuple(predicates)),
            having,
            None,
            tuple(map(self._of_groups, self.query.outputs)),
            self.query.fields,
            self.query.distinct,
        )

    def _alias(self, c: Cluster) -> str:
        return self.names(c) if c.kept else f"totals of {self.names(c)}"

    def _key(self, c: Cluster, place: int) -> Expression:
        return self._moved(c.keys[place]) if c.kept else c.key(place)

    def _of_groups(self, e: Expression) -> Expression:
        """An expression over the group's row, on the row of totals."""
        keys = self.grouping.keys

        def of_row(x: Expression) -> Expression:
            if not isinstance(x, GroupRef):
                return x
            return self._of_key(keys[x.column]) if x.column < len(keys) else self.given[x.column - len(keys)]

        return transform(e, of_row)

    def _of_key(self, k: Expression) -> Expression:
        if not references(k):
            return k
        c = self.of[min(references(k))]
        return self._key(c, c.keys.index(k))

    def _of_keys(self, check: Expression) -> Expression:
        """A condition that reads keys of groups alone."""

        def of_row(x: Expression) -> Expression:
            if not isinstance(x, ColumnRef):
                return x
            c = self.of[x.relation]
            if c.kept:
                return self._moved(x)
            a = self.attributes.named(x)
            return self._key(c, c.keys.index(x) if a is None or x in c.keys else c.attributes[a])

        return transform(check, of_row)

    def _relation(self, c: Cluster) -> Relation:
        if c.kept:
            return self.query.relations[c.relations[0]]
        within = [r for arm in c.arms for r in arm.block.within()]
        number = {r: i for i, r in enumerate((*c.relations, *within))}

        def moved(e: Expression) -> Expression:
            return transform(e, lambda x: replace(x, relation=number[x.relation]) if isinstance(x, ColumnRef) else x)

        def block(relations: Sequence[int], predicates: Sequence[Expression], arms: Sequence[Arm]) -> Block:
            below = tuple(Arm(a.kind, block(a.block.relations, a.block.predicates, a.block.arms)) for a in arms)
            return Block(tuple(number[r] for r in relations), tuple(map(moved, predicates)), below)

        predicates = [*(p for r in c.relations for p in self.filters[r])]
        for a in in_order(frozenset().union(*map(self.attributes.of, c.relations))):
            values = [self.attributes.value(r, a) for r in c.relations if a in self.attributes.of(r)]
            predicates += [build("eq", pair) for pair in pairwise(values)]
        predicates += self.checked_in(c)
        relations = [self.query.relations[r] for r in (*c.relations, *within)]
        select = c.select(relations, block(c.relations, predicates, c.arms), c.keys, moved)
        return Relation(self._alias(c), select, select.fields)
