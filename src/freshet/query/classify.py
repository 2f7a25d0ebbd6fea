"""The class of a query, which decides what its updates cost, and why it is in no stronger one.

q-hierarchical: constant time for every update. Free-connex: constant delay, constant time for insert-only streams and,
with a join tree of height 2, for sliding windows. Acyclic: as free-connex, but duplicates are projected away while
enumerating. Foreign-key acyclic: a cyclic query that primary keys make a tree. Cyclic: bags of relations.

Predicates between relations, comparisons above all, take part (IEDyn's generalized join trees, see `predicates`): a
query is free-connex or acyclic only if a tree has an edge for each of them. Cyclic by predicates: the equalities alone
have a join tree, but none has such edges; it is used all the same, and rows are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from freshet.query.attribute import Attribute, AttributeSet, as_set
from freshet.query.foreign_keys import PrimaryKeys, foreign_key_tree
from freshet.query.hypergraph import Hypergraph, minimal_cycle
from freshet.query.predicates import Remainder, remainder


class QueryClass(StrEnum):
    """The strongest first."""

    Q_HIERARCHICAL = "q-hierarchical"
    FREE_CONNEX = "free-connex"
    ACYCLIC = "acyclic"
    CYCLIC_BY_PREDICATES = "cyclic by predicates"
    FOREIGN_KEY_ACYCLIC = "foreign-key acyclic"
    CYCLIC = "cyclic"


@dataclass(frozen=True)
class Classification:
    """`name` is the strongest class that holds; `why_not` has one sentence for each of the others that does not, with a
    witness."""

    name: QueryClass
    q_hierarchical: bool
    hierarchical: bool
    free_connex: bool
    acyclic: bool
    foreign_key_acyclic: bool
    why_not: dict[QueryClass, str] = field(default_factory=dict)


def classify(
    h: Hypergraph, primary_keys: PrimaryKeys | None = None, predicates: Mapping[str, AttributeSet] | None = None
) -> Classification:
    """`predicates`: what is asked of several relations besides equality, in words, and the attributes each reads."""
    by_predicates = _ByPredicates(h, {} if predicates is None else predicates)
    by_keys = primary_keys is not None and foreign_key_tree(h, primary_keys) is not None
    verdicts = {
        QueryClass.Q_HIERARCHICAL: h.is_q_hierarchical and not by_predicates.between,
        QueryClass.FREE_CONNEX: h.is_free_connex and by_predicates.is_free_connex,
        QueryClass.ACYCLIC: h.is_acyclic and by_predicates.is_acyclic,
        QueryClass.FOREIGN_KEY_ACYCLIC: by_keys,
    }
    reasons: dict[QueryClass, Callable[[Hypergraph], str]] = {
        QueryClass.Q_HIERARCHICAL: _not_q_hierarchical if not h.is_q_hierarchical else by_predicates.not_q_hierarchical,
        QueryClass.FREE_CONNEX: _not_free_connex if not h.is_free_connex else by_predicates.not_free_connex,
        QueryClass.ACYCLIC: _not_acyclic if not h.is_acyclic else by_predicates.not_acyclic,
        QueryClass.FOREIGN_KEY_ACYCLIC: lambda h: _not_foreign_key_acyclic(h, primary_keys),
    }
    name = next((name for name, holds in verdicts.items() if holds), QueryClass.CYCLIC)
    return Classification(
        name=QueryClass.CYCLIC_BY_PREDICATES if h.is_acyclic and not verdicts[QueryClass.ACYCLIC] else name,
        q_hierarchical=verdicts[QueryClass.Q_HIERARCHICAL],
        hierarchical=h.is_hierarchical,
        free_connex=verdicts[QueryClass.FREE_CONNEX],
        acyclic=verdicts[QueryClass.ACYCLIC],
        foreign_key_acyclic=by_keys,
        why_not={name: reasons[name](h) for name, holds in verdicts.items() if not holds},
    )


class _ByPredicates:
    """What predicates make of a query whose equalities alone have a join tree."""

    def __init__(self, h: Hypergraph, predicates: Mapping[str, AttributeSet]) -> None:
        self.between = {p: read for p, read in predicates.items() if not any(read <= r for r in h.relations)}
        self.shown: Remainder = remainder(dict(enumerate(h.relations)), tuple(self.between.values()), h.output)
        self.rest: Remainder = remainder(self.shown.relations, self.shown.predicates, frozenset())
        self.is_acyclic = not self.rest.relations
        self.is_free_connex = self.is_acyclic and self.shown.variables == h.output

    def not_q_hierarchical(self, h: Hypergraph) -> str:
        return f"relations meet by more than equality: {self._listed(tuple(self.between.values()))}"

    def not_free_connex(self, h: Hypergraph) -> str:
        if not self.is_acyclic:
            return self.not_acyclic(h)
        hidden, names = self.shown.variables - h.output, [h.name(i) for i in self.shown.relations]
        decides = "is not output, but decides" if len(hidden) == 1 else "are not output, but decide"
        return (
            f"the output {as_set(h.output)} is not connex: {as_set(hidden)} {decides} which tuples of "
            f"{', '.join(names)} meet, by {self._listed(self.shown.predicates)}"
        )

    def not_acyclic(self, h: Hypergraph) -> str:
        return f"no join tree has an edge for each of {self._listed(self.rest.predicates)}"

    def _listed(self, predicates: Sequence[AttributeSet]) -> str:
        return ", ".join(p for p, read in self.between.items() if read in predicates)


def _not_q_hierarchical(h: Hypergraph) -> str:
    overlap = next(h.partial_overlaps(), None)
    if overlap is not None:
        x, z = overlap
        shared = " and ".join(h.name(i) for i in sorted(h.having(x) & h.having(z)))
        return f"{x} and {z} overlap in {shared} only partly: {_relations(h, x)} vs {_relations(h, z)}"
    x, z = next(h.hidden_dominators())
    return f"{x} is output and {z} is not, but {z} is in {_relations(h, z)}, more than the {_relations(h, x)} of {x}"


def _not_free_connex(h: Hypergraph) -> str:
    if not h.is_acyclic:
        return _not_acyclic(h)
    names = [*(h.name(i) for i in range(len(h.relations))), "the output"]
    cycle = _cycle((*h.relations, h.output), names)
    return f"the output {as_set(h.output)} is not connex: adding it as a relation makes a cycle through {cycle}"


def _not_acyclic(h: Hypergraph) -> str:
    return f"there is a cycle through {_cycle(h.relations, [h.name(i) for i in range(len(h.relations))])}"


def _not_foreign_key_acyclic(h: Hypergraph, primary_keys: PrimaryKeys | None) -> str:
    if primary_keys is None:
        return "no primary keys are known"
    unreachable = [
        i
        for i, primary_key in enumerate(primary_keys)
        if primary_key is None or not any(primary_key <= h.relations[j] for j in range(len(h.relations)) if j != i)
    ]
    if len(unreachable) > 1:
        first, second = (h.name(i) for i in unreachable[:2])
        return (
            f"no other relation has the primary key of {first}, nor that of {second}; only the root may lack a parent"
        )
    return "primary keys do not lead from any one relation to all others"


def _cycle(relations: Sequence[AttributeSet], names: Sequence[str]) -> str:
    attributes, core = minimal_cycle(relations)
    if any(len(relation) > 2 for relation in core.values()):
        inside = ", ".join(names[i] for i in core)
        return f"{inside}: all but any one of {as_set(attributes)} lie together in a relation, but never all"
    start = next(iter(core))
    steps, here = [names[start]], start
    at = min(core[start], key=str)
    while True:
        here = next(i for i, relation in core.items() if i != here and at in relation)
        steps += [f"-{at}-", names[here]]
        if here == start:
            return " ".join(steps)
        at = next(iter(core[here] - {at}))


def _relations(h: Hypergraph, attribute: Attribute) -> str:
    return "{" + ", ".join(h.name(i) for i in sorted(h.having(attribute))) + "}"
