"""Bags of a cyclic query: hidden relations whose tuples are the joins of what the cycle's relations share.

A bag joins sets: for each relation with two or more of the bag's attributes, the distinct values of these. With the
bags as additional relations the query is acyclic, and everything else (filters, copies, columns that no join reads,
outer joins) is handled as in any other query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from freshet.logical.attributes import Attributes
from freshet.logical.query import Block, Field, Query, Relation
from freshet.plans.model import AnyPlan, BagPlan, Guarantee, RelationPlan
from freshet.plans.wanted import BAG
from freshet.query.attribute import Attribute, in_order, listed
from freshet.query.decompose import Bag
from freshet.scalar.expression import ColumnRef, Expression, transform
from freshet.scalar.functions import build, nullable
from freshet.scalar.types import INTEGERS, Type


def bag_relation(
    bag: Bag,
    block: Block,
    relations: Sequence[Relation],
    attributes: Attributes,
    filters: dict[int, list[Expression]],
    plan: Callable[[Query], AnyPlan],
) -> RelationPlan:
    """`plan` plans the queries that give the distinct values."""
    order = in_order(bag.attributes)
    cover = {block.relations[i] for i in bag.cover}
    used = [r for r in block.relations if r in cover or len(attributes.of(r) & bag.attributes) > 1]
    fields = tuple(Field(str(a), _widest(a, used, attributes), False) for a in order)
    inputs, positions = [], []
    for r in used:
        # In an order that depends on the relation alone, so that all roles of a table need the same query.
        reads = {a: _alone(attributes.value(r, a)) for a in attributes.of(r) & bag.attributes}
        mine = sorted(reads, key=lambda a: repr(reads[a]))
        inputs.append(plan(_values(relations[r], [attributes.value(r, a) for a in mine], filters.get(r, []))))
        positions.append(tuple(order.index(a) for a in mine))
    aliases = ", ".join(relations[r].alias for r in used)
    promise = Guarantee(
        f"bag of width {bag.width}",
        0,
        f"{_power(bag.width - 1)} for each tuple that comes or goes, by delta joins of {aliases}",
        "that of its delta joins",
        (f"linear state: the bag may hold {_power(bag.width)} rows",),
    )
    source = BagPlan(tuple(inputs), tuple(positions), bag.width, fields, promise)
    return RelationPlan(BAG + listed(order), source, fields)


def _power(exponent: int) -> str:
    return "O(n)" if exponent == 1 else f"O(n^{exponent})"


def _widest(attribute: Attribute, relations: Sequence[int], attributes: Attributes) -> Type:
    """The two sides of an equality have the same type, except integers, whose lanes are the same for all sizes."""
    types = [attributes.value(r, attribute).type for r in relations if attribute in attributes.of(r)]
    return max(types, key=lambda t: INTEGERS.index(t.name) if t.is_integer else 0)


def _alone(e: Expression) -> Expression:
    """An expression over one relation, whatever the relation's number."""
    return transform(e, lambda x: replace(x, relation=0) if isinstance(x, ColumnRef) else x)


def _values(relation: Relation, values: Sequence[Expression], filters: Sequence[Expression]) -> Query:
    """SELECT DISTINCT values FROM relation, with neither its alias nor its number."""
    present = [build("is_not_null", (v,)) for v in values if nullable(v)]
    return Query(
        (replace(relation, alias=getattr(relation.source, "name", "rows")),),
        Block((0,), tuple(_alone(p) for p in (*filters, *present))),
        (),
        None,
        tuple(_alone(v) for v in values),
        tuple(Field(f"value{i}", v.type, False) for i, v in enumerate(values)),
        distinct=True,
    )
