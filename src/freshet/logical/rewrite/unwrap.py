"""A select that only reads another query's columns is that query.

SELECT * over any query is the query itself. Outputs and conditions over a grouping alone are outputs of the grouping
and its HAVING. A select over a UNION ALL alone is the UNION ALL of that select over each input. All spare a copy of
the rows in between, or a pass over them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from freshet.logical.extent import Extents, may_replace
from freshet.logical.query import AnyQuery, Query, TableSchema, TopK, UnionAll
from freshet.logical.rewrite.blocks import Again
from freshet.scalar import types
from freshet.scalar.expression import Call, ColumnRef, Expression, transform, walk


def unwrap(query: Query, again: Again) -> AnyQuery:
    if len(query.relations) != 1 or query.block.arms or query.grouping is not None:
        return query
    source, conditions = query.relations[0].source, (*query.block.predicates, *query.where)
    if isinstance(source, TableSchema):
        return query
    if isinstance(source, Query) and source.grouping is not None and not source.distinct:
        read = (e for x in (*query.outputs, *conditions) for e in walk(x))
        columns = (e.column for e in read if isinstance(e, ColumnRef))
        return _above_groups(query, source, conditions) if may_replace(columns, source.outputs, Extents()) else query
    if isinstance(source, UnionAll) and not query.distinct:
        relation = query.relations[0]
        each = (replace(query, relations=(replace(relation, source=part),)) for part in source.inputs)
        return UnionAll(tuple(unwrap(again(q), again) for q in each), query.fields)
    own = [e.column if isinstance(e, ColumnRef) else None for e in query.outputs]
    shown = (
        len(own) if isinstance(source, TopK) else len(source.fields)
    )  # a top-k shows as many columns as it has fields
    if conditions or query.distinct or own != list(range(shown)):
        return query
    return replace(source, fields=query.fields)


def _above_groups(query: Query, source: Query, conditions: tuple[Expression, ...]) -> Query:
    def read(expression: Expression) -> Expression:
        return source.outputs[expression.column] if isinstance(expression, ColumnRef) else expression

    assert source.grouping is not None
    tests = [*([] if source.grouping.having is None else [source.grouping.having])]
    tests += [transform(c, read) for c in conditions]
    having = reduce(lambda a, b: Call(types.BOOLEAN, "and", (a, b)), tests) if tests else None
    outputs = tuple(transform(o, read) for o in query.outputs)
    grouping = replace(source.grouping, having=having)
    return replace(source, grouping=grouping, outputs=outputs, fields=query.fields, distinct=query.distinct)
