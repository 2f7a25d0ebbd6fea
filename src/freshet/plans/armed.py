"""The hypergraph of a query together with its arms: EXISTS and NOT EXISTS affect the class just as joins do.

`SELECT x, y FROM r WHERE EXISTS (s on x) AND EXISTS (t on y)` is the join of r, s and t with the columns of s and t
projected away, and costs as much. A left join never removes rows of its parent, so its relations are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from freshet.logical.kinds import JoinKind
from freshet.plans.model import Node
from freshet.query import Attribute, Hypergraph
from freshet.query.attribute import AttributeSet
from freshet.scalar.describe import describe
from freshet.scalar.expression import ColumnRef, Expression

Named = Callable[[int, Expression], str]


@dataclass(frozen=True, slots=True)
class Armed:
    hypergraph: Hypergraph
    predicates: dict[str, AttributeSet]


def with_arms(
    h: Hypergraph,
    predicates: Mapping[str, AttributeSet],
    relations: Sequence[int],
    nodes: Sequence[Node],
    first: int,
    labels: Sequence[str],
    named: Named,
) -> Armed:
    """`relations`: those of `h`, in its order. `nodes` from `first` on are the arms'. `named`: the attribute of `h` for
    an expression over one of its relations."""
    edges: dict[int, set[Attribute]] = dict(zip(relations, map(set, h.relations), strict=True))
    known: dict[tuple[int, str], Attribute] = {}  # attributes of arms, by relation and expression
    conditions = dict(predicates)
    skipped: set[int] = set()

    def attribute(relation: int, e: Expression) -> Attribute:
        own = f"{labels[relation]}.{_words(e)}"
        read = named(relation, e) if relation in relations else known.setdefault((relation, repr(e)), own)
        edges.setdefault(relation, set()).add(read)
        return read

    for i in range(first, len(nodes)):
        node = nodes[i]
        edge, parent = node.edge, nodes[node.parent]
        assert edge is not None
        if node.parent in skipped or edge.kind is JoinKind.LEFT:
            skipped.add(i)
            continue
        edges.setdefault(node.relation, set())
        keys = edge.parent_key or tuple(_column(parent, p, edge.child_key) for p in range(len(edge.child_key)))
        for above, here in zip(keys, edge.child_key, strict=True):
            known[node.relation, repr(here)] = attribute(parent.relation, above)
            attribute(node.relation, here)
        if edge.comparison is not None:
            c = edge.comparison
            words = f"{_words(c.parent)} {c.operator} {_words(c.child)}"
            conditions[words] = frozenset({attribute(parent.relation, c.parent), attribute(node.relation, c.child)})
    generalized = {n.relation for n in nodes if n.generalized}
    shown = [r for r in edges if r not in generalized]
    return Armed(
        Hypergraph(tuple(frozenset(edges[r]) for r in shown), h.output, tuple(labels[r] for r in shown)), conditions
    )


def _words(e: Expression) -> str:
    return describe(e, lambda c: c.name)


def _column(parent: Node, position: int, key: Sequence[Expression]) -> Expression:
    """A column of a generalized parent, whose tuple is the key of its children."""
    e = key[position]
    return ColumnRef(e.type, parent.relation, position, parent.attributes[position], False)
