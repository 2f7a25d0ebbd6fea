"""Sums over rows that compare with a bound of their key become sums of such sums (AJU's join-select-aggregate).

SELECT SUM(l.x) FROM l, v, rest WHERE l.k = v.k AND l.a < v.bound AND l.k = rest.k, where v has one bound at most for
each k, is SELECT SUM(s) FROM (for each k: SUM(x) AS s over the rows of l with a < bound) r, rest WHERE r.k = rest.k.
Sums distribute over the join, so it holds whatever the rest is, as long as l is connected to it by k alone and only l
is summed. A bound that moves then changes one row of r, however many rows of l it moves over.

Rows and bounds of keys that the rest filters away are not wanted, so both have to exist there: a semi arm for each
relation of the rest that is filtered and connected by the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freshet.aggregates import AGGREGATES, function_of
from freshet.aggregates.count import Count
from freshet.aggregates.sums import Sum
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, BoundedSums, Field, Grouping, Query, Relation, key
from freshet.logical.rewrite.blocks import Again, reads, reads_all
from freshet.logical.rewrite.unwrap import unwrap
from freshet.scalar import functions, types
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.describe import describe
from freshet.scalar.expression import (
    AggregateCall,
    Call,
    ColumnRef,
    Expression,
    GroupRef,
    Literal,
    references,
    transform,
)
from freshet.scalar.functions.registry import comparison_of


def sum_within_bounds(query: Query, again: Again) -> Query:
    if query.grouping is None or query.where or len(query.block.relations) < 2:
        return query
    for predicate in query.block.predicates:
        for operator, value, bound in _sides(predicate):
            made = _Rewrite(query, predicate, operator, value, bound).query(again)
            if made is not None:
                return made
    return query


def _sides(predicate: Expression) -> list[tuple[ComparisonOperator, Expression, Expression]]:
    operator = comparison_of(predicate)
    if not isinstance(predicate, Call) or operator is None or not operator.is_order:
        return []
    left, right = predicate.args
    if left.type.lanes != right.type.lanes or left.type.pooled or right.type.pooled:
        return []
    if len(references(left)) != 1 or len(references(right)) != 1 or references(left) == references(right):
        return []
    return [(operator, left, right), (operator.flipped, right, left)]


class _Rewrite:
    def __init__(
        self, query: Query, predicate: Expression, operator: ComparisonOperator, value: Expression, bound: Expression
    ) -> None:
        self.old, self.predicate, self.operator, self.value, self.bound = query, predicate, operator, value, bound
        (self.rows,), (self.bounds,) = references(value), references(bound)
        self.number = len(query.relations)  # of the relation of sums
        self.keys: dict[Expression, int] = {}  # what is read of either side → its place among the keys
        self.row_keys: list[Expression] = []
        self.bound_keys: list[Expression] = []
        self.measures: list[Expression] = []

    def query(self, again: Again) -> Query | None:
        """None where the query is not of this form."""
        query, block, pair = self.old, self.old.block, {self.rows, self.bounds}
        if not pair <= {*block.relations} or any(reads(arm.block) & pair for arm in block.arms):
            return None
        if not self._find_keys():
            return None
        own = [p for p in block.predicates if references(p) == {self.rows}]
        rest = []
        for p in block.predicates:
            if p == self.predicate or p in own or self._joins(p):
                continue
            moved = self._moved(p)
            if references(moved) & pair:
                return None
            rest.append(moved)
        grouped = self._grouping()
        if grouped is None:
            return None
        grouping, outputs = grouped
        relation = self._relation(own, rest, again)
        others = tuple(r for r in block.relations if r not in pair)
        return replace(
            query,
            relations=(*query.relations, relation),
            block=Block((self.number, *others), tuple(dict.fromkeys(rest)), block.arms),
            grouping=grouping,
            outputs=outputs,
        )

    def _find_keys(self) -> bool:
        """The keys of the bounds, each equal to something of the rows, directly or through a third relation; whether
        all have such."""
        source = self.old.relations[self.bounds].source
        if not isinstance(source, Query) or source.grouping is None or source.distinct:
            return False
        places = {o.column: i for i, o in enumerate(source.outputs) if isinstance(o, GroupRef)}
        wanted = range(len(source.grouping.keys))
        if not wanted or any(k not in places for k in wanted):
            return False
        same = _Same(self.old.block.predicates)
        for k in wanted:
            field = self.old.relations[self.bounds].fields[places[k]]
            column = key(self.bounds, places[k], field)
            mine = [e for e in same.to(column) if references(e) == {self.rows}]
            if not mine:
                return False
            self.row_keys.append(mine[0])
            self.bound_keys.append(column)
            for e in (*mine, column):
                self.keys[_bare(e)] = k
        return True

    def _joins(self, predicate: Expression) -> bool:
        """Whether a predicate only says that both sides have the same key."""
        if not isinstance(predicate, Call) or predicate.name != "eq":
            return False
        if references(predicate) != {self.rows, self.bounds}:
            return False
        places = [self.keys.get(_bare(a)) for a in predicate.args]
        return places[0] is not None and places[0] == places[1]

    def _moved(self, expression: Expression) -> Expression:
        """An expression that reads keys, as read from the sums."""
        if _bare(expression) in self.keys:
            return self._key(self.keys[_bare(expression)])
        if isinstance(expression, Call):
            return replace(expression, args=tuple(self._moved(a) for a in expression.args))
        return expression

    def _key(self, at: int) -> ColumnRef:
        e = self.row_keys[at]
        return ColumnRef(e.type, self.number, at, describe(e), False)

    def _grouping(self) -> tuple[Grouping, tuple[Expression, ...]] | None:
        old = self.old.grouping
        assert old is not None
        keys = tuple(self._moved(k) for k in old.keys)
        if reads_all(keys) & {self.rows, self.bounds}:
            return None
        calls = [made for c in old.aggregates if (made := self._call(c)) is not None]
        if len(calls) < len(old.aggregates):
            return None
        counts = {len(keys) + i for i, c in enumerate(old.aggregates) if function_of(c).counts}

        def counted(e: Expression) -> Expression:
            """COUNT over no rows at all is 0, where a sum of counts is NULL."""
            if isinstance(e, GroupRef) and e.column in counts:
                return functions.build("coalesce", (replace(e, nullable=True), Literal(types.BIGINT, 0)))
            return e

        having = None if old.having is None else transform(old.having, counted)
        return Grouping(keys, tuple(calls), having), tuple(transform(o, counted) for o in self.old.outputs)

    def _call(self, call: AggregateCall) -> AggregateCall | None:
        if not isinstance(function_of(call), (Count, Sum)):
            return None
        if call.distinct or call.filter is not None or len(call.args) > 1:
            return None
        if not call.args:
            place, kind = len(self.row_keys), types.BIGINT
        else:
            (arg,) = call.args
            if references(arg) != {self.rows} or arg.type.is_fraction or arg.type.lanes != 1:
                return None
            if function_of(call).counts:
                one, none = Literal(types.BIGINT, 1), Literal(types.BIGINT, 0)
                arg = functions.build("case", (functions.build("is_null", (arg,)), none, one))
            if arg not in self.measures:
                self.measures.append(arg)
            place, kind = len(self.row_keys) + 1 + self.measures.index(arg), call.type
        nullable = bool(call.args)
        return AggregateCall("sum", (ColumnRef(kind, self.number, place, call.function, nullable),), call.type)

    def _wanted(self, query: Query, keys: Sequence[Expression], rest: list[Expression]) -> Query:
        """A query whose rows have keys, restricted to those that the filtered relations of the rest have."""
        for r in self.old.block.relations:
            filters = [p for p in rest if references(p) == {r}]
            equal = (p for p in rest if references(p) == {self.number, r})
            joins = {frozenset(p.args): p for p in equal if isinstance(p, Call) and p.name == "eq"}.values()
            if not (filters and joins) or not reads_all(keys) <= {*query.block.relations}:
                continue
            place = len(query.relations)

            def moved(e: Expression, r: int = r, place: int = place) -> Expression:
                if isinstance(e, ColumnRef) and e.relation == self.number:
                    return keys[e.column]
                return replace(e, relation=place) if isinstance(e, ColumnRef) and e.relation == r else e

            arm = Arm(JoinKind.SEMI, Block((place,), tuple(transform(p, moved) for p in (*filters, *joins))))
            query = replace(
                query,
                relations=(*query.relations, self.old.relations[r]),
                block=replace(query.block, arms=(*query.block.arms, arm)),
            )
        return query

    def _relation(self, own: list[Expression], rest: list[Expression], again: Again) -> Relation:
        rows, bounds = self.old.relations[self.rows], self.old.relations[self.bounds]
        source = bounds.source
        assert isinstance(source, Query) and source.grouping is not None
        bounds = replace(bounds, source=again(self._wanted(source, source.grouping.keys, rest)))
        filters = [*own, *(_known(e) for e in (*self.row_keys, self.value) if functions.nullable(e))]
        read = (*self.row_keys, self.value, *self.measures)
        chosen = _select(rows, self.rows, read, filters)
        keys = chosen.outputs[: len(self.row_keys)]
        below = unwrap(again(self._wanted(chosen, keys, rest)), again)
        checks = [_known(self.bound)] if functions.nullable(self.bound) else []
        least = unwrap(_select(bounds, self.bounds, (*self.bound_keys, self.bound), checks), again)
        sums = [self._sum_type(m) for m in self.measures]
        fields = (
            *(Field(describe(e), e.type, False) for e in self.row_keys),
            Field("rows", types.BIGINT, False),
            *(Field(f"sum {i + 1}", kind, True) for i, kind in enumerate(sums)),
        )
        made = BoundedSums(below, least, len(self.row_keys), self.operator, fields)
        return Relation(f"{rows.alias} within {bounds.alias}", made, fields)

    def _sum_type(self, measure: Expression) -> types.Type:
        return AGGREGATES["sum"].type([measure.type])


class _Same:
    """Which expressions equalities make equal."""

    def __init__(self, predicates: tuple[Expression, ...]) -> None:
        pairs = [p.args for p in predicates if isinstance(p, Call) and p.name == "eq"]
        self.pairs = [(a, b) for a, b in pairs if len(references(a)) == 1 and len(references(b)) == 1]

    def to(self, start: Expression) -> list[Expression]:
        found, seen = [start], {_bare(start)}
        for e in found:
            for a, b in (*self.pairs, *((b, a) for a, b in self.pairs)):
                if _bare(a) == _bare(e) and _bare(b) not in seen:
                    seen.add(_bare(b))
                    found.append(b)
        return found


def _bare(expression: Expression) -> Expression:
    """Without what does not tell one column from another."""
    return transform(expression, lambda e: replace(e, name="", nullable=True) if isinstance(e, ColumnRef) else e)


def _known(expression: Expression) -> Expression:
    return functions.build("is_not_null", (expression,))


def _select(relation: Relation, number: int, outputs: tuple[Expression, ...], filters: list[Expression]) -> Query:
    def alone(e: Expression) -> Expression:
        return replace(e, relation=0) if isinstance(e, ColumnRef) and e.relation == number else e

    shown = tuple(transform(e, alone) for e in outputs)
    fields = tuple(Field(describe(e), e.type, functions.nullable(e)) for e in shown)
    return Query((relation,), Block((0,), tuple(transform(f, alone) for f in filters)), (), None, shown, fields)
