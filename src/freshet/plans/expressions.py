"""Expressions of a plan, read or changed everywhere at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from freshet.logical.query import TableSchema
from freshet.plans.model import AnyPlan, Comparison, QueryPlan, RelationPlan, inputs, with_inputs
from freshet.scalar.expression import ColumnRef, Expression, transform, walk


def map_expressions(plan: QueryPlan, change: Callable[[Expression], Expression]) -> QueryPlan:
    """The plan with every expression over its relations changed; nested plans are left alone."""

    def each(expressions: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return tuple(map(change, expressions))

    nodes = []
    for n in plan.nodes:
        edge = n.edge
        if edge is not None:
            compared = None if edge.comparison is None else _changed(edge.comparison, change)
            edge = replace(
                edge, parent_key=each(edge.parent_key), child_key=each(edge.child_key), condition=each(edge.condition),
                comparison=compared,
            )  # fmt: skip
        checks = tuple(
            replace(a, left_value=change(a.left_value), right_value=change(a.right_value)) for a in n.assertions
        )
        nodes.append(replace(n, edge=edge, filter=each(n.filter), assertions=checks))
    grouping = plan.grouping
    if grouping is not None:
        having = None if grouping.having is None else change(grouping.having)
        grouping = replace(
            grouping,
            keys=each(grouping.keys),
            aggregates=tuple(c.mapped(change) for c in grouping.aggregates),
            having=having,
        )
    copies = tuple(c for c in each(plan.copies) if isinstance(c, ColumnRef))
    return replace(
        plan, nodes=tuple(nodes), residual=each(plan.residual), grouping=grouping, outputs=each(plan.outputs),
        copies=copies,
    )  # fmt: skip


def _changed(c: Comparison, change: Callable[[Expression], Expression]) -> Comparison:
    second = None if c.second is None else _changed(c.second, change)
    return replace(c, parent=change(c.parent), child=change(c.child), second=second)


def map_selects(plan: AnyPlan, change: Callable[[QueryPlan], QueryPlan]) -> AnyPlan:
    """The plan with every select in it changed, from the outermost on."""
    if isinstance(plan, QueryPlan):
        plan = change(plan)
        relations = (
            r if isinstance(r.source, TableSchema) else replace(r, source=map_selects(r.source, change))
            for r in plan.relations
        )
        return replace(plan, relations=tuple(relations))
    return with_inputs(plan, [map_selects(below, change) for _, below in inputs(plan)])


def used_columns(plan: QueryPlan, every: bool = False) -> dict[int, frozenset[int]]:
    """The columns of each relation that are read anywhere but in its own filter, or `every` column."""
    if every:
        return {i: frozenset(range(len(r.fields))) for i, r in enumerate(plan.relations)}
    return columns_read(replace(plan, nodes=tuple(replace(n, filter=()) for n in plan.nodes)))


def columns_read(plan: QueryPlan) -> dict[int, frozenset[int]]:
    """The columns of each relation that are read anywhere."""
    found: dict[int, set[int]] = {i: set() for i in range(len(plan.relations))}

    def note(e: Expression) -> Expression:
        for x in walk(e):
            if isinstance(x, ColumnRef):
                found[x.relation].add(x.column)
        return e

    map_expressions(plan, note)
    return {i: frozenset(columns) for i, columns in found.items()}


def node_filters(plan: AnyPlan, name: str) -> Iterator[tuple[Expression, ...]]:
    """Filters of the nodes that read the named table, over its columns as relation 0."""
    if isinstance(plan, QueryPlan):
        for node in plan.nodes:
            source = None if node.generalized else plan.relations[node.relation].source
            if node.filter and isinstance(source, TableSchema) and source.name == name:
                yield tuple(_of_one(f) for f in node.filter)
    for _, below in inputs(plan):
        yield from node_filters(below, name)


def _of_one(expression: Expression) -> Expression:
    return transform(expression, lambda e: replace(e, relation=0) if isinstance(e, ColumnRef) else e)


def with_source(plan: AnyPlan, name: str, schema: TableSchema) -> AnyPlan:
    """The plan with another table of the same columns in place of the one named."""
    if isinstance(plan, QueryPlan):
        relations = []
        for r in plan.relations:
            if isinstance(r.source, TableSchema):
                named = r.source.name == name
                relations.append(RelationPlan(r.alias, schema, schema.fields) if named else r)
            else:
                relations.append(replace(r, source=with_source(r.source, name, schema)))
        return replace(plan, relations=tuple(relations))
    return with_inputs(plan, [with_source(below, name, schema) for _, below in inputs(plan)])
