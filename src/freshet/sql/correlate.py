"""Subqueries that read the query around them, turned into queries that read nothing but their own relations.

A subquery Q(o) that depends on values o of the rows around it becomes one query whose rows say for which o they are.
Where Q reads o only in equalities (inner = o) of its WHERE, the inner sides are the keys: Q's rows under a key are the
rows of Q(o) with that key. Otherwise Q is bound again with the values it asks for lent to it as a relation of its own:
SELECT DISTINCT o over the rows around it. Either way the query around it finds its answer by equality with the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from freshet.logical.kinds import JoinKind
from freshet.logical.query import Block, Field, Query, Relation, key
from freshet.logical.references import OuterRef, inward, outer_columns, outward
from freshet.logical.rewrite.blocks import predicates_in, reads_all, subtree
from freshet.scalar import functions
from freshet.scalar.expression import Call, ColumnRef, Expression, Reference, references
from freshet.sql.binder import Binder, Draft, Place, Unasked
from freshet.sql.outside import ApartError
from freshet.sql.scope import Scope


@dataclass(frozen=True, slots=True)
class Asked:
    """A key of a subquery: what it reads of its own rows, and the value of the rows around it that must equal it."""

    inner: Expression
    outer: Expression
    null_safe: bool


def lend(binder: Binder, scope: Scope, draft: Draft, node: exp.Expr) -> list[Asked]:
    """Joins to a draft, before anything else, the values of enclosing queries that the query was found to need; returns
    the keys by which they find it."""
    place = binder.outer
    if place is None or not binder.asks:
        return []
    columns = list(dict.fromkeys(c for name in binder.asks for c in place.scope.find(*name)))
    values = _asked_for(place, columns, node)
    number = binder.lent = binder.add_relation(Relation("values asked for", values, values.fields), node)
    draft.relations.append(number)
    lent = {c: key(number, i, f) for i, (c, f) in enumerate(zip(columns, values.fields, strict=True))}
    scope.lent = {outward(c): k for c, k in lent.items()}
    return [Asked(k, place.read(c, node), k.nullable) for c, k in lent.items()]


def lift(binder: Binder, draft: Draft, node: exp.Expr) -> list[Asked]:
    """Takes equalities with enclosing queries out of a draft; returns the keys by which they find it."""
    place = binder.outer
    if place is None:
        return []
    equal = {p: pair for p in draft.predicates if (pair := _equality(p)) is not None}
    rest = [p for p in draft.predicates if p not in equal]
    columns = outer_columns([*rest, *(p for arm in draft.arms for p in predicates_in(arm.block))])
    if columns:
        raise Unasked(binder, outer_columns([*columns, *(a.outer for a in equal.values())]))
    draft.predicates[:] = rest
    return [replace(a, outer=place.read(inward(a.outer), node)) for a in equal.values()]


def _equality(predicate: Expression) -> Asked | None:
    """inner = outer, where each side reads only its own."""
    if not isinstance(predicate, Call) or predicate.name not in ("eq", "not_distinct"):
        return None
    for inner, outer in (predicate.args, predicate.args[::-1]):
        if references(inner) and not outer_columns([inner]) and outer_columns([outer]) and not references(outer):
            return Asked(inner, outer, predicate.name == "not_distinct")
    return None


def _asked_for(place: Place, columns: Sequence[ColumnRef | OuterRef], node: exp.Expr) -> Query:
    """The distinct values of columns of the rows around a subquery; more than those asked for do no harm."""
    statement, draft = place.binder.statement, place.draft
    instead = "correlate it by equalities (inner = outer) under AND in its WHERE"
    further = [c for c in columns if isinstance(c, OuterRef)]
    if further:
        raise Unasked(place.binder, further)
    if place.beside is not None:
        statement.refuse("a subquery that reads groups by other than =,", instead, node)
    hosts = tuple(sorted({c.relation for c in columns}))
    if any(e.optional and e.has(c) for e in place.scope.own() for c in columns):
        arms = tuple(a for a in draft.arms if a.kind is JoinKind.LEFT)
        own = subtree(Block(tuple(draft.relations), (), arms))
        if not own >= {*hosts}:
            statement.refuse("a subquery that reads a LEFT JOIN's columns by other than = in ON", instead, node)
        further = outer_columns(p for a in arms for p in predicates_in(a.block))
        if further:
            raise Unasked(place.binder, further)
        if not reads_all(p for a in arms for p in predicates_in(a.block)) <= own:
            message = f"a subquery below a LEFT JOIN whose ON reads the query around it is not supported; {instead}"
            raise statement.placed(ApartError(message), node)
        kept = tuple(p for p in draft.predicates if references(p) <= own and not outer_columns([p]))
        block = Block(tuple(draft.relations), kept, arms)
    else:
        block = Block(hosts, tuple(p for p in draft.predicates if references(p) <= {*hosts} and not outer_columns([p])))
    fields = tuple(Field(c.name, c.type, c.nullable) for c in columns)
    return Query(tuple(place.binder.relations), block, (), None, tuple(columns), fields, True)


def tests(asked: Iterable[Asked], keys: Iterable[Reference]) -> list[Expression]:
    """What connects a subquery's keys to the rows around it."""
    pairs = zip(asked, keys, strict=True)
    return [functions.build("not_distinct" if a.null_safe else "eq", (a.outer, k)) for a, k in pairs]
