"""A query as a hypergraph: one set of attributes for each relation, and the output attributes.

Acyclic means that the relations have a join tree. GYO decides it: drop attributes that only one relation has, drop
relations that another one contains, until nothing changes; the hypergraph is acyclic when at most one relation is
left. Free-connex means acyclic both without and with the output added as one more relation. With E(x) the relations
that have attribute x: hierarchical means that any E(x), E(z) are nested or disjoint; q-hierarchical means that also no
output attribute x has E(x) properly inside E(z) of an attribute z that is not output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from freshet.errors import PlanError
from freshet.query.attribute import Attribute, AttributeSet, in_order, listed


@dataclass(frozen=True)
class Hypergraph:
    """`names` are only for messages; without them the relations are called R1, R2, ..."""

    relations: tuple[AttributeSet, ...]
    output: AttributeSet
    names: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.relations:
            raise PlanError("the query has no relations; a join needs at least one")
        unknown = self.output - self.attributes
        if unknown:
            raise PlanError(
                f"no relation has the output attribute {listed(unknown)}; "
                f"the relations have {listed(self.attributes) or 'none'}"
            )
        if self.names and len(self.names) != len(self.relations):
            raise PlanError(
                f"{len(self.names)} names for {len(self.relations)} relations; give each relation one name, or none"
            )

    @cached_property
    def attributes(self) -> AttributeSet:
        return frozenset().union(*self.relations)

    def name(self, relation: int) -> str:
        return self.names[relation] if self.names else f"R{relation + 1}"

    @cached_property
    def _holders(self) -> dict[Attribute, frozenset[int]]:
        holders: dict[Attribute, set[int]] = {a: set() for a in self.attributes}
        for i, relation in enumerate(self.relations):
            for attribute in relation:
                holders[attribute].add(i)
        return {attribute: frozenset(relations) for attribute, relations in holders.items()}

    def having(self, attribute: Attribute) -> frozenset[int]:
        """E(attribute): the relations that have it."""
        return self._holders.get(attribute, frozenset())

    @cached_property
    def is_acyclic(self) -> bool:
        return len(gyo_core(self.relations)) <= 1

    @cached_property
    def is_free_connex(self) -> bool:
        return self.is_acyclic and len(gyo_core((*self.relations, self.output))) <= 1

    @cached_property
    def is_hierarchical(self) -> bool:
        return next(self.partial_overlaps(), None) is None

    @cached_property
    def is_q_hierarchical(self) -> bool:
        return self.is_hierarchical and next(self.hidden_dominators(), None) is None

    def _representatives(self, attributes: AttributeSet) -> list[Attribute]:
        """One attribute, the first in order, for each set of relations that share it."""
        first: dict[frozenset[int], Attribute] = {}
        for attribute in in_order(attributes):
            first.setdefault(self.having(attribute), attribute)
        return list(first.values())

    def partial_overlaps(self) -> Iterator[tuple[Attribute, Attribute]]:
        """Pairs of attributes whose relations overlap without one holding the other; of attributes that the same
        relations have, the first stands for all."""
        for x, z in combinations(self._representatives(self.attributes), 2):
            with_x, with_z = self.having(x), self.having(z)
            if with_x & with_z and not with_x <= with_z and not with_z <= with_x:
                yield x, z

    def hidden_dominators(self) -> Iterator[tuple[Attribute, Attribute]]:
        """Pairs (x, z): x is output, z is not, and E(x) is properly inside E(z); of alike ones the first."""
        hidden = self._representatives(self.attributes - self.output)
        for x in self._representatives(self.output):
            for z in hidden:
                if self.having(x) < self.having(z):
                    yield x, z

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Relations connected by shared attributes, each component and the list of them in the given order. A relation
        without attributes is a component of its own."""
        parts: list[tuple[set[int], set[Attribute]]] = []
        for i, relation in enumerate(self.relations):
            touching = [part for part in parts if part[1] & relation]
            parts = [part for part in parts if not part[1] & relation]
            members = {i}.union(*(part[0] for part in touching))
            parts.append((members, set(relation).union(*(part[1] for part in touching))))
        return tuple(sorted(tuple(sorted(members)) for members, _ in parts))


def gyo_core(relations: Sequence[AttributeSet]) -> dict[int, AttributeSet]:
    """What GYO leaves: relation number to the attributes it still has. One entry or none when acyclic."""
    left = dict(enumerate(relations))
    holders = Counter(attribute for relation in relations for attribute in relation)
    changed = True
    while changed:
        changed = False
        for i, relation in list(left.items()):
            shared = frozenset(a for a in relation if holders[a] > 1)
            if shared != relation:
                left[i] = shared
                changed = True
            if any(shared <= other for j, other in left.items() if j != i):
                del left[i]
                holders.subtract(shared)
                changed = True
    return left


def minimal_cycle(
    relations: Sequence[AttributeSet],
) -> tuple[AttributeSet, dict[int, AttributeSet]]:
    """The witness that relations are cyclic: attributes none of which can be left out, and the relations that make the
    cycle, cut down to them. What remains is either a plain cycle, in which each relation has two of the attributes and
    each attribute lies in two relations, or all but one of the attributes lie together in a relation, for every one
    left out, but never all of them."""
    kept: AttributeSet = frozenset().union(*relations)
    for attribute in in_order(kept):
        fewer = kept - {attribute}
        # cutting attributes away never makes an acyclic hypergraph cyclic, so one pass reaches a minimum
        if len(gyo_core([relation & fewer for relation in relations])) > 1:
            kept = fewer
    return kept, gyo_core([relation & kept for relation in relations])
