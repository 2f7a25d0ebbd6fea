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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from freshet.aggregates import function_of
from freshet.logical.kinds import JoinKind
from freshet.logical.parts import asked, identity, sorted_predicates, splits
from freshet.logical.query import Arm, Block, Grouping, Query, Relation
from freshet.logical.totals import Part, Totals, read
from freshet.query import Attribute, Hypergraph
from freshet.query.attribute import AttributeSet, in_order
from freshet.scalar.expression import (
    AggregateCall,
    Call,
    ColumnRef,
    Expression,
    GroupRef,
    Literal,
    references,
    transform,
    walk,
)
from freshet.scalar.functions import build, cast, nullable
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


@dataclass(slots=True)
class _Cluster(Part):
    """A part with the keys it shows or shares with others."""

    keys: list[Expression] = field(default_factory=list)
    attributes: dict[Attribute, int] = field(default_factory=dict)  # places of keys that others share
    arms: list[Arm] = field(default_factory=list)
    kept: bool = False  # whether its one relation is read as it is

    def key(self, place: int) -> ColumnRef:
        k = self.keys[place]
        return ColumnRef(k.type, self.number, place, k.name if isinstance(k, ColumnRef) else f"k{place}", nullable(k))


class _Factors(Totals[_Cluster]):
    def __init__(self, query: Query, grouping: Grouping) -> None:
        self.query, self.grouping, self.why = query, grouping, ""
        block = query.block
        if query.where or any(arm.kind is JoinKind.LEFT for arm in block.arms):
            self.why = "outer joins are not grouped in parts"
            return
        self.filters, self.attributes, self.checks = sorted_predicates(block)
        names = map(self.attributes.named, grouping.keys)
        self.output: AttributeSet = frozenset(a for a in names if a is not None)
        if not self.pays:
            return
        self.clusters = self._clusters()
        self.why = self._why_not()
        if self.why:
            return
        self._number()
        self.given = [self._single(call) for call in grouping.aggregates]

    # Which parts ----------------------------------------------------------------------------------------------

    @cached_property
    def pays(self) -> bool:
        """Whether there may be more groups than any relation has tuples."""
        relations = self.query.block.relations
        return not any(self._decides(r, relations, self.grouping.keys) for r in relations)

    def _decides(self, r: int, among: Sequence[int], keys: Sequence[Expression]) -> bool:
        """Whether the tuple of one relation decides the keys, by primary keys of the others among these."""
        reached, known = {r}, set(self.attributes.of(r))
        waiting = True
        while waiting:
            waiting = False
            for s in among:
                own = identity(self.query.relations[s])
                if s in reached or own is None:
                    continue
                values = (self.attributes.value(s, a) for a in self.attributes.of(s) & known)
                if own <= {v.column for v in values if isinstance(v, ColumnRef)}:
                    reached.add(s)
                    known |= self.attributes.of(s)
                    waiting = True
        return all(references(k) <= reached or self.attributes.named(k) in known for k in keys)

    def _clusters(self) -> list[_Cluster]:
        block = self.query.block
        cluster = {r: {r} for r in block.relations}

        def together(relations: Sequence[int]) -> None:
            joined = set().union(*(cluster[r] for r in relations))
            cluster.update(dict.fromkeys(joined, joined))

        for r in block.relations:
            for s in block.relations:
                if self.attributes.of(r) & self.attributes.of(s) - self.output:
                    together((r, s))
        arms = [(arm, self._read_by(asked(arm.block)) or [block.relations[0]]) for arm in block.arms]
        for check in self.checks:
            if not self._reads_keys(check):
                together(self._read_by([check]))
        for relations in (*(r for _, r in arms), *(self._read_by([k]) for k in self.grouping.keys)):
            if relations:
                together(relations)
        found = [_Cluster(sorted(c), 0) for c in {id(c): c for c in cluster.values()}.values()]
        for c in found:
            c.arms = [arm for arm, relations in arms if relations[0] in c.relations]
            self._settle_keys(c)
        return found

    def _read_by(self, expressions: Sequence[Expression] | Iterator[Expression]) -> list[int]:
        found = frozenset().union(*map(references, expressions))
        return [r for r in self.query.block.relations if r in found]

    def _reads_keys(self, check: Expression) -> bool:
        """Whether a condition on several relations reads nothing but keys of groups."""
        columns = (c for c in walk(check) if isinstance(c, ColumnRef))
        return all(c in self.grouping.keys or self.attributes.named(c) in self.output for c in columns)

    def _settle_keys(self, c: _Cluster) -> None:
        members = set(c.relations)
        c.keys = list(dict.fromkeys(k for k in self.grouping.keys if references(k) and references(k) <= members))
        for place, k in enumerate(c.keys):
            a = self.attributes.named(k)
            if a is not None:
                c.attributes.setdefault(a, place)
        for r in c.relations:
            for a in in_order(self.attributes.of(r) & self.output - c.attributes.keys()):
                c.attributes[a] = len(c.keys)
                c.keys.append(self.attributes.value(r, a))
        c.width = len(c.keys)
        c.kept = self._is_kept(c)

    def _is_kept(self, c: _Cluster) -> bool:
        """Whether each tuple is a row of totals already, and no aggregate has to be taken of it below."""
        own = identity(self.query.relations[c.relations[0]])
        if len(c.relations) > 1 or c.arms or own is None:
            return False
        calls = [call for call in self.grouping.aggregates if read(call) & {*c.relations}]
        plain = all(
            not x.distinct and (function_of(x).carries(x) or function_of(x).greatest is not None) for x in calls
        )
        return plain and own <= {k.column for k in c.keys if isinstance(k, ColumnRef)}

    def _why_not(self) -> str:
        for c in self.clusters:
            if not any(self._decides(r, c.relations, c.keys) for r in c.relations):
                return f"{self._names(c)} show keys of several relations, joined by what is no key"
            moved = (*self._checked_in(c), *(p for arm in c.arms for p in asked(arm.block)), *c.keys)
            if not c.kept and not all(map(is_total, moved)):
                return f"not every row of {self._names(c)} has a value of what is asked of it"
        if not Hypergraph(tuple(frozenset(c.attributes) for c in self.clusters), frozenset()).is_acyclic:
            return "the keys join in a cycle"
        return ""

    def _checked_in(self, c: _Cluster) -> list[Expression]:
        return [p for p in self.checks if references(p) and references(p) <= {*c.relations}]

    def _number(self) -> None:
        kept = [c for c in self.clusters if c.kept]
        self.parts = [c for c in self.clusters if not c.kept]
        for number, c in enumerate((*kept, *self.parts)):
            c.number = number
        self.number = {c.relations[0]: c.number for c in kept}
        self.inside = {r: c for c in self.parts for r in c.relations}
        self.of = {r: c for c in self.clusters for r in c.relations}

    # Aggregates -----------------------------------------------------------------------------------------------

    def _single(self, call: AggregateCall) -> Expression:
        """An aggregate of the group, from the one row of totals that it is."""
        function, clusters = function_of(call), {self.of[r].number for r in read(call)}
        part = self.inside.get(min(read(call), default=-1)) if len(clusters) == 1 else None
        local = part is not None and all(map(is_total, call.reads))
        if call.distinct or function.idempotent:  # how often a value occurs does not matter
            if part is not None and local:
                return self._asked(part, call)
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
        elif not _is_end(call):
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

    def _names(self, c: _Cluster) -> str:
        return ", ".join(self.query.relations[r].alias for r in c.relations)

    def _alias(self, c: _Cluster) -> str:
        return self._names(c) if c.kept else f"totals of {self._names(c)}"

    def _key(self, c: _Cluster, place: int) -> Expression:
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

    def _relation(self, c: _Cluster) -> Relation:
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
        predicates += self._checked_in(c)
        relations = [self.query.relations[r] for r in (*c.relations, *within)]
        select = c.select(relations, block(c.relations, predicates, c.arms), c.keys, moved)
        return Relation(self._alias(c), select, select.fields)


def _is_end(call: AggregateCall) -> bool:
    """Whether it is MIN or MAX, which of one row is its argument."""
    return function_of(call).of_itself and function_of(call).greatest is not None
