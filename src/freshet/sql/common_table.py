"""A query named by WITH, as read from a subquery nested inside the query that has the WITH."""

from __future__ import annotations

from freshet.logical.apply import outer_columns
from freshet.logical.query import AnyQuery, Query, TableSchema, children, with_children
from freshet.logical.references import OuterRef
from freshet.logical.rewrite.blocks import map_expressions
from freshet.scalar.expression import Expression
from freshet.sql.binder import CommonTable, SelfReference
from freshet.sql.scope import Around


def read_from(common: CommonTable, around: Around | None) -> AnyQuery:
    """The query as seen by a reader with those surroundings: what it reads from the queries around WITH is passed as an
    argument through every subquery in between."""
    assert not isinstance(common.query, SelfReference)
    if around is common.around or not outer_columns(common.query):
        return common.query
    between: list[Around] = []
    while around is not None and around is not common.around:
        between.append(around)
        around = around.scope.around

    def argument(e: Expression) -> Expression:
        if isinstance(e, OuterRef):
            for each in reversed(between):
                e = each.argument(e)
        return e

    def moved(query: AnyQuery) -> AnyQuery:
        read = [s if isinstance(s, TableSchema) else moved(s) for s in children(query)]
        query = with_children(query, read)
        return map_expressions(query, argument) if isinstance(query, Query) else query

    return moved(common.query)
