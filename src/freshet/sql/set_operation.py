"""UNION, EXCEPT and INTERSECT: two queries become one, columns matched by position and widened to a common type."""

from __future__ import annotations

from sqlglot import exp

from freshet.logical.kinds import SetKind
from freshet.logical.query import AnyQuery, Field, SetOperation, UnionAll
from freshet.logical.rewrite.flatten_unions import all_inputs, uncounted
from freshet.scalar import functions
from freshet.scalar.expression import Expression
from freshet.scalar.types import Type
from freshet.sql.binder import Binder
from freshet.sql.datatype import check_compared
from freshet.sql.scope import NameScope
from freshet.sql.widen import widened

_KINDS: dict[type[exp.Expr], SetKind] = {
    exp.Union: SetKind.UNION,
    exp.Except: SetKind.EXCEPT,
    exp.Intersect: SetKind.INTERSECT,
}
_OF_ITS_OWN = ("with_", "order", "limit", "offset")
_READ = ("this", "expression", "distinct", *_OF_ITS_OWN)


def bind_set_operation(binder: Binder, node: exp.SetOperation) -> AnyQuery:
    """Binds a chain of set operations from its left end, without recursion, so that it may be of any length."""
    chain: list[exp.SetOperation] = [node]
    while isinstance(chain[-1].this, exp.SetOperation) and not any(chain[-1].this.args.get(e) for e in _OF_ITS_OWN):
        chain.append(chain[-1].this)
    bound = binder.nested(chain[-1].this)
    for each in reversed(chain):
        bound = _combined(binder, each, bound)
    return bound


def _combined(binder: Binder, node: exp.SetOperation, left: AnyQuery) -> AnyQuery:
    binder.statement.only(node, _READ)
    kind, copies = _KINDS[type(node)], not node.args.get("distinct")
    right = binder.nested(node.expression)
    if not copies:  # before casts come between the two
        left, right = uncounted(left), uncounted(right)
    types = _common_types(binder, left, right, node)

    def cast(value: Expression, to: Type) -> Expression:
        return binder.scalar(NameScope(), kind.upper()).cast(value, to, node)

    names = [f.name for f in left.fields]
    left, right = widened(left, types, cast), widened(right, types, cast)
    fields = tuple(
        Field(name, a.type, kind.nullable(a.nullable, b.nullable))
        for name, a, b in zip(names, left.fields, right.fields, strict=True)
    )
    if kind is not SetKind.UNION or not copies:
        for common in types:
            check_compared(common, kind.upper(), binder.statement, node)
    if kind is SetKind.UNION and copies:
        return UnionAll((*all_inputs(left), *all_inputs(right)), fields)
    return SetOperation(kind, copies, left, right, fields)


def _common_types(binder: Binder, left: AnyQuery, right: AnyQuery, node: exp.SetOperation) -> list[Type]:
    what, a, b = _KINDS[type(node)].upper(), left.fields, right.fields
    if len(a) != len(b):
        message = f"{what} has {len(a)} columns on its left and {len(b)} on its right; select as many on both sides"
        binder.statement.fail(message, node)
    common_types = []
    for position, (one, other) in enumerate(zip(a, b, strict=True)):
        common = functions.common_type((one.type, other.type))
        if common is None:
            message = f"column {position + 1} of {what} is {one.type} on its left and {other.type} on its right"
            binder.statement.fail(f"{message}; CAST one of them", node)
        common_types.append(common)
    return common_types
