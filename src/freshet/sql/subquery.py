"""Subqueries in expressions: EXISTS, IN, ANY, ALL, and values. Each is bound once, as a separate query (`Apply`).

WHERE and ON keep their conjuncts separate: a subquery that is a conjunct by itself becomes a join, others are read as
values (logical/rewrite/decorrelate).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from freshet.logical.apply import Apply, ApplyKind
from freshet.logical.extent import check_relations
from freshet.logical.query import AnyQuery, Field
from freshet.logical.references import ValueRef
from freshet.scalar import functions, types
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Expression
from freshet.scalar.types import Type
from freshet.sql.binder import Binder, Draft
from freshet.sql.calls import BINARY
from freshet.sql.scalar import ScalarBinder
from freshet.sql.scope import NameScope
from freshet.sql.source import sql_of


def bind_conditions(binder: Binder, node: exp.Expr, scope: NameScope, draft: Draft, clause: str) -> None:
    scalar = binder.scalar(scope, clause, subqueries=True)
    for part, negated in _conjuncts(node, False):
        predicate = scalar.condition(part)
        draft.predicates.append(scalar.build("not", [predicate], part) if negated else predicate)


def _conjuncts(node: exp.Expr, negated: bool) -> Iterator[tuple[exp.Expr, bool]]:
    """The conjuncts of a condition, each with whether it is negated."""
    left = [(node, negated)]
    while left:
        node, negated = left.pop()
        if isinstance(node, exp.Paren):
            left.append((node.this, negated))
        elif isinstance(node, exp.Not):
            left.append((node.this, not negated))
        elif isinstance(node, exp.Or if negated else exp.And):
            left += [(node.expression, negated), (node.this, negated)]
        else:
            yield node, negated


def bind_subquery(binder: Binder, scope: NameScope, node: exp.Expr, scalar: ScalarBinder) -> Expression:
    """A subquery in an expression; `scalar` binds the values it is compared with."""
    if isinstance(node, exp.Exists):
        return _apply(binder, scope, node, node.this, ApplyKind.EXISTS)
    if isinstance(node, (exp.Subquery, exp.Query)):
        return _apply(binder, scope, node, node, ApplyKind.SCALAR)
    query, comparison, kind = _compared_query(node)
    if query is None or comparison is None:
        binder.statement.refuse(sql_of(node), "compare with ANY or ALL of a subquery", node)
    left = node.this.this if isinstance(node.this, exp.Paren) else node.this
    values = [scalar.bind(e) for e in (left.expressions if isinstance(left, exp.Tuple) else [left])]
    return _apply(binder, scope, node, query, kind, values, comparison)


def _compared_query(node: exp.Expr) -> tuple[exp.Expr | None, ComparisonOperator | None, ApplyKind]:
    """The subquery and the comparison of IN, ANY or ALL."""
    if isinstance(node, exp.In):
        return node.args.get("query"), ComparisonOperator.EQUAL, ApplyKind.ANY
    test = node.args.get("expression")
    if not isinstance(test, (exp.Any, exp.All)):
        return None, None, ApplyKind.ANY
    inside, function = test.this, BINARY.get(type(node))
    query = inside if isinstance(inside, (exp.Query, exp.Subquery)) else None
    comparison = None if function is None else functions.FUNCTIONS[function].comparison
    return query, comparison, ApplyKind.ALL if isinstance(test, exp.All) else ApplyKind.ANY


def _apply(
    binder: Binder,
    scope: NameScope,
    node: exp.Expr,
    inside: exp.Expr,
    kind: ApplyKind,
    values: Sequence[Expression] = (),
    comparison: ComparisonOperator = ComparisonOperator.EQUAL,
) -> Apply:
    """`inside`: the query."""
    query, around = binder.subquery(inside, scope, kind is ApplyKind.EXISTS)
    check_relations(binder.statement.extents.relations(query), binder.statement, node)
    result, nullable = types.BOOLEAN, False
    if kind is ApplyKind.SCALAR:
        result, nullable = _only(binder, query, node), True
    elif kind is not ApplyKind.EXISTS:
        nullable = _check_compared(binder, values, query.fields, comparison, node)
    args, spot = (*values, *around.read), binder.statement.spot(node)
    return Apply(result, kind, query, args, sql_of(node), nullable, comparison, len(values), scope.mark, spot)


def _only(binder: Binder, query: AnyQuery, node: exp.Expr) -> Type:
    if len(query.fields) != 1:
        many = len(query.fields)
        binder.statement.fail(f"a subquery used as a value has {many} columns; select one", node)
    return query.fields[0].type


def _check_compared(
    binder: Binder,
    values: Sequence[Expression],
    fields: Sequence[Field],
    comparison: ComparisonOperator,
    node: exp.Expr,
) -> bool:
    """Checks that values and columns agree in number and types; returns whether the comparison may be NULL."""
    if len(values) != len(fields):
        message = f"{len(values)} values are compared with {len(fields)} columns; select as many as there are values"
        binder.statement.fail(message, node)
    scalar = binder.scalar(NameScope(), "IN")
    columns = [ValueRef(f.type, i, f.name, f.nullable) for i, f in enumerate(fields)]
    tests = [scalar.build(comparison.function, pair, node) for pair in zip(values, columns, strict=True)]
    return any(map(functions.nullable, tests))
