"""Acyclic and free-connex with predicates between relations (IEDyn, section 3).

A generalized join tree has relations as leaves, and above them nodes that each lie inside one of their children; every
predicate has to find all its variables at the two ends of one edge. A query is acyclic when it has such a tree, and
free-connex when the nodes of one, from the root down to somewhere, have exactly the output as their variables.

As with GYO, taking away what can be attached to something else decides it, in any order:

- a variable of one relation alone that neither predicate nor output reads;
- a predicate whose variables all lie in one relation;
- a relation, when another has all it shares with others or shows, and all that its remaining variables are compared
  with: it can be attached to that one, and the edge carries those predicates.

With the output kept, what is left has the variables of the connex nodes; they are the output where it is free-connex.
Then the output is taken away as well, and a tree exists when nothing is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from freshet.query.attribute import AttributeSet


@dataclass(frozen=True)
class Remainder:
    """What cannot be taken away."""

    relations: dict[int, AttributeSet]  # by number
    predicates: tuple[AttributeSet, ...]

    @property
    def variables(self) -> AttributeSet:
        return frozenset().union(*self.relations.values())


def remainder(
    relations: dict[int, AttributeSet], predicates: Sequence[AttributeSet], output: AttributeSet
) -> Remainder:
    """A predicate reads variables of the relations only."""
    edges, checks = dict(relations), list(predicates)
    changed = True
    while changed:
        changed = False
        checks = [p for p in checks if not any(p <= e for e in edges.values())]
        compared = frozenset().union(*checks)
        for i, edge in list(edges.items()):
            others = {j: e for j, e in edges.items() if j != i}
            bound = edge & output.union(*others.values())
            edges[i] = edge & (bound | compared)
            own = edges[i] - bound
            reached = frozenset().union(*(p for p in checks if p & own)) - own
            if not edges[i] or any(bound | reached <= e for e in others.values()):
                del edges[i]
                checks = [p for p in checks if not p & own]
                compared = frozenset().union(*checks)
                changed = True
            elif edges[i] != edge:
                changed = True
    return Remainder(edges, tuple(checks))


def verdicts(
    relations: Sequence[AttributeSet], predicates: Sequence[AttributeSet], output: AttributeSet
) -> tuple[bool, bool]:
    """Whether the query is acyclic, and whether it is free-connex."""
    shown = remainder(dict(enumerate(relations)), predicates, output)
    acyclic = not remainder(shown.relations, shown.predicates, frozenset()).relations
    return acyclic, acyclic and shown.variables == output
