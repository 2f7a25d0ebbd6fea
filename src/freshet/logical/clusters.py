"""Finds the parts of a join that can be grouped by keys of the query's groups, so that each group is one joined row of
the parts.

Relations that share a join attribute that is not a group key belong together, and so do relations that are read
together by a condition, an EXISTS or a key, unless the condition reads only keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from freshet.aggregates import function_of
from freshet.logical.kinds import JoinKind
from freshet.logical.parts import sorted_predicates
from freshet.logical.query import Arm, Grouping, Query
from freshet.logical.separable import asked, identity
from freshet.logical.totals import Part, read
from freshet.query import Attribute, Hypergraph
from freshet.query.attribute import AttributeSet, in_order
from freshet.scalar.expression import AggregateCall, ColumnRef, Expression, references, walk
from freshet.scalar.functions import nullable
from freshet.scalar.functions.compiled import is_total


@dataclass(slots=True)
class Cluster(Part):
    """A part, with the keys that it outputs or shares with others."""

    keys: list[Expression] = field(default_factory=list)
    attributes: dict[Attribute, int] = field(default_factory=dict)  # places of keys that others share
    arms: list[Arm] = field(default_factory=list)
    kept: bool = False  # whether its only relation is read unchanged

    def key(self, place: int) -> ColumnRef:
        k = self.keys[place]
        return ColumnRef(k.type, self.number, place, k.name if isinstance(k, ColumnRef) else f"k{place}", nullable(k))


class Clusters:
    """`why`: the reason why groups cannot be rows of such parts; then, or if they do not pay, there are no clusters."""

    def __init__(self, query: Query, grouping: Grouping) -> None:
        self.query, self.grouping, self.why = query, grouping, ""
        self.clusters: list[Cluster] = []
        block = query.block
        if query.where or any(arm.kind is JoinKind.LEFT for arm in block.arms):
            self.why = "outer joins are not grouped in parts"
            return
        self.filters, self.attributes, self.checks = sorted_predicates(block)
        names = map(self.attributes.named, grouping.keys)
        self.output: AttributeSet = frozenset(a for a in names if a is not None)
        if self.pays:
            self.clusters = self._clusters()
            self.why = self._why_not()
            self._number()

    @cached_property
    def pays(self) -> bool:
        """Whether there may be more groups than any relation has tuples."""
        relations = self.query.block.relations
        return not any(self._decides(r, relations, self.grouping.keys) for r in relations)

    def _decides(self, r: int, among: Sequence[int], keys: Sequence[Expression]) -> bool:
        """Whether the tuple of one relation determines the keys, by primary keys of the other relations."""
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

    def _clusters(self) -> list[Cluster]:
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
        found = [Cluster(sorted(c), 0) for c in {id(c): c for c in cluster.values()}.values()]
        for c in found:
            c.arms = [arm for arm, relations in arms if relations[0] in c.relations]
            self._settle_keys(c)
        return found

    def _read_by(self, expressions: Iterable[Expression]) -> list[int]:
        found = frozenset().union(*map(references, expressions))
        return [r for r in self.query.block.relations if r in found]

    def _reads_keys(self, check: Expression) -> bool:
        """Whether a condition on several relations reads nothing but keys of groups."""
        columns = (c for c in walk(check) if isinstance(c, ColumnRef))
        return all(c in self.grouping.keys or self.attributes.named(c) in self.output for c in columns)

    def _settle_keys(self, c: Cluster) -> None:
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

    def _is_kept(self, c: Cluster) -> bool:
        """Whether each tuple is already a row of totals, so that nothing needs to be aggregated below."""
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
                return f"{self.names(c)} show keys of several relations, joined by columns that are not keys"
            moved = (*self.checked_in(c), *(p for arm in c.arms for p in asked(arm.block)), *c.keys)
            if not c.kept and not all(map(is_total, moved)):
                return f"an expression over {self.names(c)} may have no value on some row"
        if not Hypergraph(tuple(frozenset(c.attributes) for c in self.clusters), frozenset()).is_acyclic:
            return "the keys join in a cycle"
        return ""

    def checked_in(self, c: Cluster) -> list[Expression]:
        return [p for p in self.checks if references(p) and references(p) <= {*c.relations}]

    def _number(self) -> None:
        kept = [c for c in self.clusters if c.kept]
        self.parts = [c for c in self.clusters if not c.kept]
        for number, c in enumerate((*kept, *self.parts)):
            c.number = number
        self.number = {c.relations[0]: c.number for c in kept}
        self.inside = {r: c for c in self.parts for r in c.relations}
        self.of = {r: c for c in self.clusters for r in c.relations}

    def names(self, c: Cluster) -> str:
        return ", ".join(self.query.relations[r].alias for r in c.relations)


def is_end(call: AggregateCall) -> bool:
    """Whether it is MIN or MAX, which of one row is its argument."""
    return function_of(call).of_itself and function_of(call).greatest is not None
