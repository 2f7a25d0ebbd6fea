"""WHERE, ON: a condition's AND-ed parts; EXISTS, IN and ANY among them become arms, the rest bound predicates.

EXISTS (SELECT ... WHERE p) hangs a semi arm whose predicates are p; NOT EXISTS an anti arm. x IN (SELECT y ...) is
EXISTS with x = y added, true where IN is true; it differs from IN only between FALSE and NULL, which WHERE treats
alike. NOT IN tells them apart, so it is an anti arm only when neither side can be NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from freshet.sql import functions
from freshet.sql.bound import Arm, Relation, key
from freshet.sql.calls import BINARY
from freshet.sql.clauses import check_clauses, is_grouped
from freshet.sql.expression import Expression
from freshet.sql.from_clause import Draft, bind_from
from freshet.sql.rewrite.blocks import NAMELESS
from freshet.sql.scope import Scope

if TYPE_CHECKING:
    from freshet.sql.select import SelectBinder


def bind_conditions(binder: SelectBinder, node: exp.Expr, scope: Scope, draft: Draft, clause: str) -> None:
    for part, negated in _conjuncts(node, False):
        if isinstance(part, exp.Exists):
            _hang(binder, "anti" if negated else "semi", part.this, scope, draft, None, "eq")
        elif isinstance(part, exp.In) and part.args.get("query"):
            _hang(binder, "anti" if negated else "semi", part.args["query"], scope, draft, part, "eq")
        elif isinstance(getattr(part, "expression", None), (exp.Any, exp.All)) and type(part) in BINARY:
            comparison = BINARY[type(part)]
            if isinstance(part.expression, exp.All) or negated or not _is_query(part.expression.this):
                what = "a comparison with ALL, or NOT before ANY,"
                binder.statement.refuse(what, "use NOT EXISTS with the opposite comparison inside", part)
            _hang(binder, "semi", part.expression.this, scope, draft, part, comparison)
        else:
            scalar = binder.scalar(scope, clause)
            predicate = scalar.condition(part)
            draft.predicates.append(scalar.build("not", [predicate], part) if negated else predicate)


def _conjuncts(node: exp.Expr, negated: bool) -> Iterator[tuple[exp.Expr, bool]]:
    """The parts that must all hold, each with whether it stands under NOT."""
    if isinstance(node, exp.Paren):
        yield from _conjuncts(node.this, negated)
    elif isinstance(node, exp.Not):
        yield from _conjuncts(node.this, not negated)
    elif isinstance(node, exp.Or if negated else exp.And):
        yield from _conjuncts(node.this, negated)
        yield from _conjuncts(node.expression, negated)
    else:
        yield node, negated


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Query, exp.Subquery))


def _hang(
    binder: SelectBinder, kind: str, node: exp.Expr, scope: Scope, draft: Draft, test: exp.Expr | None, comparison: str
) -> None:
    """Hangs the arm of one subquery. `test` is the IN or ANY whose left side is compared to the subquery's columns."""
    select = node
    while isinstance(select, exp.Subquery) and not select.args.get("with_"):
        select = select.this
    arm = Draft()
    wanted = _sides(binder, test, scope)
    if isinstance(select, exp.Select) and not is_grouped(select) and not _is_cut(select, test):
        with binder.common_tables(select):
            check_clauses(binder.statement, select)
            inner = Scope(parent=scope)
            bind_from(binder, select, inner, arm)
            if select.args.get("where"):
                bind_conditions(binder, select.args["where"].this, inner, arm, "WHERE")
            found = [output.expression for output in binder.project(select, inner)]
    else:
        query = binder.nested(node)
        number = binder.add_relation(Relation(NAMELESS, query, query.fields), node)
        arm.relations.append(number)
        found = [key(number, i, f) for i, f in enumerate(query.fields)]
    if test is not None:
        _compare(binder, kind, wanted, found, comparison, arm, test)
    draft.arms.append(Arm(kind, arm.block()))


def _is_cut(select: exp.Select, test: exp.Expr | None) -> bool:
    """Whether LIMIT or window functions decide what is found; whether there is a row at all does not depend on how many
    are wanted at most."""
    limit = select.args.get("limit")
    if select.args.get("qualify") or any(item.find(exp.Window) for item in select.expressions):
        return True
    if limit is None and not select.args.get("offset"):
        return False
    count = None if limit is None else limit.args.get("expression")
    some = isinstance(count, exp.Literal) and count.is_int and int(count.name) >= 1
    return test is not None or not some or bool(select.args.get("offset"))


def _sides(binder: SelectBinder, test: exp.Expr | None, scope: Scope) -> list[Expression]:
    if test is None:
        return []
    left = test.this.this if isinstance(test.this, exp.Paren) else test.this
    parts = left.expressions if isinstance(left, exp.Tuple) else [left]
    scalar = binder.scalar(scope, "IN")
    return [scalar.bind(p) for p in parts]


def _compare(
    binder: SelectBinder,
    kind: str,
    wanted: list[Expression],
    found: list[Expression],
    comparison: str,
    arm: Draft,
    test: exp.Expr,
) -> None:
    statement = binder.statement
    if len(wanted) != len(found):
        statement.fail(f"{len(wanted)} values are compared to {len(found)} columns; select as many as stand left", test)
    if kind == "anti" and any(functions.nullable(e) for e in (*wanted, *found)):
        instead = "where NULL may occur, say NOT EXISTS (SELECT ... WHERE inner = outer), or make the columns NOT NULL"
        statement.refuse("NOT IN over columns that may be NULL", instead, test)
    scalar = binder.scalar(Scope(), "IN")
    for mine, theirs in zip(wanted, found, strict=True):
        arm.predicates.append(scalar.build(comparison, [mine, theirs], test))
