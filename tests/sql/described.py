"""Bound queries as short text, so that a test reads as SQL in, meaning out.

a, b | a.k = b.k | left[c | c.k = a.k] | where ... | group ... | having ... | select ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from freshet.logical.query import Block, Query
from freshet.scalar.describe import describe, describe_aggregate
from freshet.scalar.expression import ColumnRef, Expression, GroupRef, transform
from freshet.sql.catalog import Catalog
from freshet.sql.limit import as_bag
from freshet.sql.parse import bind_query


def bind_select(text: str, catalog: Catalog) -> Query:
    """The one SELECT the text holds."""
    bound = as_bag(bind_query(text, catalog))
    assert isinstance(bound, Query)
    return bound


def described(query: Query) -> str:
    def name(column: ColumnRef) -> str:
        relation = query.relations[column.relation]
        assert relation.fields[column.column].type == column.type
        return f"{relation.alias}.{relation.fields[column.column].name}"

    def numbered(e: Expression) -> Expression:
        return replace(e, name=f"#{e.column}") if isinstance(e, GroupRef) else e

    def text(expression: Expression) -> str:
        shown = describe(transform(expression, numbered), name)
        return shown[1:-1] if shown.startswith("(") and shown.endswith(")") and _balanced(shown[1:-1]) else shown

    def block(b: Block) -> str:
        names = []
        for number in b.relations:
            alias, source = query.relations[number].alias, query.relations[number].source
            names.append(f"{alias}:({described(source)})" if isinstance(source, Query) else alias)
        parts = [", ".join(names)]
        if b.predicates:
            parts.append(" & ".join(text(p) for p in b.predicates))
        parts += [f"{arm.kind}[{block(arm.block)}]" for arm in b.arms]
        return " | ".join(parts)

    parts = [block(query.block)]
    if query.where:
        parts.append("where " + " & ".join(text(w) for w in query.where))
    if query.grouping is not None:
        aggregates = [describe_aggregate(a) + _filter(a.filter, text) for a in query.grouping.aggregates]
        parts.append("group " + ", ".join([*(text(k) for k in query.grouping.keys), *aggregates]))
        if query.grouping.having is not None:
            parts.append("having " + text(query.grouping.having))
    word = "distinct" if query.distinct else "select"
    parts.append(f"{word} " + ", ".join(text(o) for o in query.outputs))
    return " | ".join(parts)


def _filter(condition: Expression | None, text: Callable[[Expression], str]) -> str:
    return "" if condition is None else f" if {text(condition)}"


def _balanced(text: str) -> bool:
    depth = 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0:
            return False
    return depth == 0
