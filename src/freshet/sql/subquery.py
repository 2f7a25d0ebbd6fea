"""WHERE, ON: a condition's AND-ed parts; EXISTS, IN, ANY and ALL among them become arms, the rest bound predicates.

EXISTS (SELECT ... WHERE p) hangs a semi arm whose predicates are p; NOT EXISTS an anti arm. x op ANY (SELECT y ...) is
EXISTS with x op y added, true where ANY is true; it differs only between FALSE and NULL, which WHERE treats alike.
x op ALL (SELECT y ...) holds where no y is found that does not compare, no y that is NULL, and, if x is NULL, no row at
all: an anti arm for each. x IN (...) is = ANY, x NOT IN (...) is <> ALL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm
from freshet.logical.rewrite.blocks import reads, subtree
from freshet.scalar import functions
from freshet.scalar.expression import Expression
from freshet.sql.binder import Binder, Draft, Place
from freshet.sql.clauses import bare, check_clauses, is_grand, is_grouped
from freshet.sql.correlate import tests
from freshet.sql.from_clause import bind_from
from freshet.sql.inner_query import bind_inner
from freshet.sql.limit import bind_order
from freshet.sql.names import Names
from freshet.sql.outside import ApartError
from freshet.sql.scalar import ScalarBinder
from freshet.sql.scope import Scope
from freshet.sql.subquery_value import compared_query

#: What connects an arm: predicates made of the subquery's columns.
Connect = Callable[[list[Expression]], list[Expression]]


def bind_conditions(binder: Binder, node: exp.Expr, scope: Scope, draft: Draft, clause: str) -> None:
    for part, negated in _conjuncts(node, False):
        query, comparison, every = compared_query(part)
        query = part.this if isinstance(part, exp.Exists) else query
        if query is not None and is_grand(bare(query)):
            query = None  # one row at most, so it is read as a value
        if query is not None and isinstance(part, exp.Exists):
            _hang(binder, JoinKind.ANTI if negated else JoinKind.SEMI, query, scope, draft, None, None)
        elif query is not None and comparison is not None:
            opposite = functions.FUNCTIONS[comparison].opposite
            if every != negated:
                _hang_all(binder, query, scope, draft, part, opposite if every else comparison)
            else:
                test = opposite if negated else comparison
                wanted = _sides(binder, part, scope, draft)
                _hang(binder, JoinKind.SEMI, query, scope, draft, part, _comparing(binder, wanted, test, part))
        else:
            scalar = binder.scalar(scope, clause, None, draft)
            predicate = scalar.condition(part)
            draft.predicates.append(scalar.build("not", [predicate], part) if negated else predicate)


def _conjuncts(node: exp.Expr, negated: bool) -> Iterator[tuple[exp.Expr, bool]]:
    """The parts that must all hold, each with whether it stands under NOT."""
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


def _hang(
    binder: Binder, kind: JoinKind, node: exp.Expr, scope: Scope, draft: Draft, test: exp.Expr | None,
    connect: Connect | None,
) -> None:  # fmt: skip
    """Hangs the arm of one subquery. `test`: the IN, ANY or ALL it stands in."""
    select, arm, found = bare(node), Draft(), None
    if isinstance(select, exp.Select) and not is_grouped(select) and not _is_cut(select, test):
        found = _bind_inside(binder, select, scope, arm)
    if found is None:
        place, arm = Place(binder, scope, draft), Draft()
        bound = bind_inner(place, node)
        number = place.add(bound.query, node)
        arm.relations.append(number)
        arm.predicates += tests(bound.asked, bound.keys(number, place))
        found = [bound.value(i, number, place, node) for i in range(len(bound.values))]
    if connect is not None:
        arm.predicates += connect(found)
    draft.arms.append(Arm(kind, arm.block()))


def _bind_inside(binder: Binder, select: exp.Select, scope: Scope, arm: Draft) -> list[Expression] | None:
    """Binds a subquery into an arm of the select around it; what it shows, or None where no arm can be made of it."""
    known = len(binder.relations)
    if id(select) in binder.learnt.apart:
        return None
    try:
        with binder.common_tables(select, scope):
            check_clauses(binder.statement, select)
            inner = Scope(parent=scope)
            bind_from(binder, select, inner, arm)
            if select.args.get("where"):
                bind_conditions(binder, select.args["where"].this, inner, arm, "WHERE")
            outputs = binder.project(select, inner, draft=arm)
            found = [output.expression for output in outputs]
            names = Names(inner, binder.statement).in_order_by(outputs)
            bind_order(select, found, binder.statement, ScalarBinder(binder.statement, names, "ORDER BY").bind)
        if all(a.kind is JoinKind.SEMI or reads(a.block) <= subtree(arm.block()) for a in arm.arms):
            return found
    except ApartError:
        pass
    del binder.relations[known:]  # an arm reads only the block right above it
    binder.learnt.apart.add(id(select))
    return None


def _hang_all(binder: Binder, query: exp.Expr, scope: Scope, draft: Draft, test: exp.Expr, opposite: str) -> None:
    """Nothing may be found that compares by the opposite, or might."""
    wanted, scalar = _sides(binder, test, scope, draft), binder.scalar(Scope(), "IN")

    def is_null(value: Expression) -> Expression:
        return scalar.build("is_null", [value], test)

    nullable: list[bool] = []

    def compare(found: list[Expression]) -> list[Expression]:
        plain = _comparing(binder, wanted, opposite, test)(found)
        nullable[:] = [functions.nullable(e) for e in found]
        if len(found) == 1 or not (any(nullable) or any(map(functions.nullable, wanted))):
            return plain
        rows = zip(plain, wanted, found, strict=True)  # every part must compare, or be unknown
        return [scalar.build("or", [p, is_null(mine), is_null(theirs)], test) for p, mine, theirs in rows]

    _hang(binder, JoinKind.ANTI, query, scope, draft, test, compare)
    if len(wanted) == 1 and nullable[0]:
        _hang(binder, JoinKind.ANTI, query, scope, draft, test, lambda found: [is_null(found[0])])
    if len(wanted) == 1 and functions.nullable(wanted[0]):
        _hang(binder, JoinKind.ANTI, query, scope, draft, test, lambda found: [is_null(wanted[0])])


def _is_cut(select: exp.Select, test: exp.Expr | None) -> bool:
    """Whether LIMIT or window functions decide what is found; whether there is a row at all does not depend on how many
    are wanted at most."""
    limit = select.args.get("limit")
    order = select.args.get("order")
    if select.args.get("qualify") or any(item.find(exp.Window) for item in select.expressions):
        return True
    if order is not None and order.find(exp.Window, exp.Query):
        return True
    if limit is None and not select.args.get("offset"):
        return False
    count = None if limit is None else limit.args.get("expression")
    some = isinstance(count, exp.Literal) and count.is_int and int(count.name) >= 1
    return test is not None or not some or bool(select.args.get("offset"))


def _sides(binder: Binder, test: exp.Expr, scope: Scope, draft: Draft) -> list[Expression]:
    left = test.this.this if isinstance(test.this, exp.Paren) else test.this
    parts = left.expressions if isinstance(left, exp.Tuple) else [left]
    scalar = binder.scalar(scope, "IN", None, draft)
    return [scalar.bind(p) for p in parts]


def _comparing(binder: Binder, wanted: list[Expression], comparison: str, test: exp.Expr) -> Connect:
    def connect(found: list[Expression]) -> list[Expression]:
        if len(wanted) != len(found):
            message = f"{len(wanted)} values are compared to {len(found)} columns; select as many as stand left"
            binder.statement.fail(message, test)
        scalar = binder.scalar(Scope(), "IN")
        return [scalar.build(comparison, [mine, theirs], test) for mine, theirs in zip(wanted, found, strict=True)]

    return connect
