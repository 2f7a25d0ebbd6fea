"""Finds the parts of a join that can be grouped separately, so that the query above reads one row for each key.

A part is a subtree of a join tree whose root has to be enumerated, as do the relations that comparisons and EXISTS
read. It contributes only aggregates of its tuples, and its tuples multiply: many of them join with one tuple of the
parent, which joins with many others too, or of which there are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from freshet.aggregates import function_of
from freshet.logical.attributes import Attributes, equality
from freshet.logical.outer_parts import OuterJoin, outer_joins
from freshet.logical.products import unproven
from freshet.logical.query import Block, Query
from freshet.logical.separable import asked, identity, is_checkable, multiplies, splits
from freshet.logical.totals import Part, read
from freshet.query import Attribute, Hypergraph
from freshet.query.attribute import AttributeSet, in_order
from freshet.scalar.expression import ColumnRef, Expression, references, walk
from freshet.scalar.functions.compiled import is_total


@dataclass(slots=True)
class Subtree(Part):
    """A part below a relation of the query above."""

    top: int = field(kw_only=True)
    parent: int = field(kw_only=True)
    attributes: list[Attribute] = field(default_factory=list)
    outer: OuterJoin | None = None  # that the part stands for
    attached: list[OuterJoin] = field(default_factory=list)  # LEFT JOINs within the part

    def within(self) -> list[int]:
        return [*self.relations, *(r for o in self.attached for r in o.relations)]


class Parts:
    """`why`: the reason why the query should not be changed, if there is one; then there are no parts."""

    def __init__(self, query: Query) -> None:
        block = query.block
        assert query.grouping is not None
        self.why = ""
        self.parts: list[Subtree] = []
        self.query, self.grouping, self.relations = query, query.grouping, block.relations
        self.filters, self.attributes, self.checks = sorted_predicates(block)
        self.outer = [*outer_joins(query)]
        joined = [o.arm for o in self.outer]
        self.asked = [*self.checks, *query.where, *(p for a in block.arms if a not in joined for p in asked(a.block))]
        h = Hypergraph(tuple(self.attributes.of(r) for r in self.relations), frozenset())
        if not h.is_acyclic:
            self.why = "the joins form a cycle"
            return
        self.unchecked = ""  # why some aggregate cannot be combined from parts
        for call in self.grouping.aggregates:
            if not call.distinct and not function_of(call).idempotent and not function_of(call).carries(call):
                self.why = f"{call.function.upper()} needs each of them"
                return
        self.shown = self._shown()
        self.parents = self._tree()
        self._split(self.relations_down[0])
        self.inside = {r: part for part in self.parts for r in part.within()}
        self.kept = [r for r in self.relations if r not in self.inside]
        self.number = {r: i for i, r in enumerate(self.kept)}
        for i, part in enumerate(self.parts):
            part.number = len(self.kept) + i
        self.in_arms = [r for arm in block.arms for r in arm.block.within() if r not in self.inside]
        self.number |= {r: len(self.kept) + len(self.parts) + i for i, r in enumerate(self.in_arms)}
        self.grouped = {r: columns for r in self.kept if (columns := self._collapsed(r)) is not None}

    # Which parts ----------------------------------------------------------------------------------------------

    def _shown(self) -> set[int]:
        """Relations that have to be enumerated: those of keys, comparisons and EXISTS, and of aggregates that are not
        sums of products over parts."""
        enumerated = {r for e in (*self.grouping.keys, *self.asked) for r in references(e) if r in self.relations}
        for call in self.grouping.aggregates:
            if call.distinct:
                enumerated |= read(call)
            elif function_of(call).idempotent:
                several = len(read(call)) > 1 and not multiplies(call)
                if not function_of(call).of_itself or several or not all(map(is_total, call.reads)):
                    enumerated |= read(call)
            elif not splits(call):
                enumerated |= read(call)
                wide = [u.type for a in call.args for u in unproven(a) if not is_checkable(u.type)]
                if wide:
                    self.unchecked = f"a value inside {call.function.upper()} may not fit {wide[0]}"
        return enumerated & {*self.relations}

    def _tree(self) -> dict[int, int]:
        """Parents in a join tree whose root is shown, if any relation is: a spanning tree of most shared attributes."""
        attributes = {r: self.attributes.of(r) for r in self.relations}
        root = min(self.shown, default=self.relations[0])
        parents, order = {root: -1}, [root]
        best = {r: (len(attributes[root] & attributes[r]), 0, -r) for r in self.relations if r != root}
        while best:
            _, at, least = max(best.values())
            parents[-least] = order[-at]
            del best[-least]
            order.append(-least)
            for r in best:
                best[r] = max(best[r], (len(attributes[-least] & attributes[r]), 1 - len(order), -r))
        self.relations_down = order
        return parents

    def _children(self, r: int) -> list[int]:
        return [c for c in self.relations_down if self.parents[c] == r]

    def _below(self, r: int) -> Iterator[int]:
        yield r
        for c in self._children(r):
            yield from self._below(c)

    def many(self, here: int, there: int, grouped: Mapping[int, Sequence[int]] | None = None) -> bool:
        """Whether a tuple here may meet many there; some relations may be grouped by columns."""
        for o in self.outer:
            if here == o.top:
                return o.is_shared(self.query, (grouped or {}).get(there))
            if there == o.top:
                return o.multiplies(self.query)
        shared = self.attributes.of(here) & self.attributes.of(there)
        columns = {e.column for a in shared if isinstance(e := self.attributes.value(there, a), ColumnRef)}
        own = identity(self.query.relations[there])
        if grouped is not None and there in grouped:
            own = {*grouped[there]}
        return own is None or not own <= columns

    def _split(self, r: int) -> None:
        near = [*self._children(r), *([self.parents[r]] if self.parents[r] >= 0 else [])]
        many = [n for n in near if self.many(r, n)]
        outer = [o for o in self.outer if o.parent == r and o.multiplies(self.query)]
        several = len(many) + len(outer) > 1
        for o in outer:
            if several or o.is_shared(self.query):
                self.parts.append(Subtree(o.relations, len(o.keys), top=o.top, parent=r, outer=o))
        for c in self._children(r):
            below = list(self._below(c))
            if c in many and (several or self.many(c, r)) and not self.shown & {*below}:
                shared = self.attributes.of(r) & self.attributes.of(c)
                attached = [o for o in self.outer if o.parent in below]
                self.parts.append(
                    Subtree(below, len(shared), top=c, parent=r, attributes=in_order(shared), attached=attached)
                )
            else:
                self._split(c)

    def _collapsed(self, r: int) -> list[int] | None:
        """The columns of a relation that are read above, if tuples with equal values in them can be grouped."""
        meets = (e for o in self.outer for e in o.meets)
        expressions = [e for e in (*self.grouping.keys, *self.asked, *meets) if r in references(e)]
        for call in self.grouping.aggregates:
            expressions += [e for e in call.reads if r in references(e)]
        expressions += [self.attributes.value(r, a) for a in self.attributes.of(r)]
        used = {c.column for e in expressions for c in walk(e) if isinstance(c, ColumnRef) and c.relation == r}
        own = identity(self.query.relations[r])
        if len(used) == len(self.query.relations[r].fields) or (own is not None and own <= used):
            return None
        return sorted(used)

    def shared(self, r: int) -> AttributeSet:
        return self.attributes.of(r) & self.attributes.of(self.parents[r])


def sorted_predicates(block: Block) -> tuple[dict[int, list[Expression]], Attributes, list[Expression]]:
    """The predicates of a block in three parts: filters of single relations, equalities between relations, and other
    predicates on several relations."""
    filters: dict[int, list[Expression]] = {r: [] for r in block.relations}
    pairs, checks = [], []
    for p in block.predicates:
        pair, relations = equality(p), references(p)
        if len(relations) == 1:
            filters[next(iter(relations))].append(p)
        elif pair is not None and not pair[2]:
            pairs.append(pair)
        else:
            checks.append(p)
    attributes = Attributes(pairs)
    for r in block.relations:
        filters[r] += attributes.own_filter(r)
    return filters, attributes, checks
