"""Queries: parsed node → bound query.

One binder serves one select and the EXISTS / IN subqueries inside it, since their relations share one numbering. FROM
subqueries, views and CTEs are selects of their own; the rewrites merge them where that is sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from freshet.logical.extent import check_parts, check_relations
from freshet.logical.query import AnyQuery
from freshet.scalar.expression import Expression
from freshet.sql.binder import Binder, Draft, Place
from freshet.sql.clauses import check_clauses
from freshet.sql.derived import Derived, bind_derived
from freshet.sql.limit import limited
from freshet.sql.names import Names
from freshet.sql.outside import Name
from freshet.sql.projection import Output, expand_star, output_name
from freshet.sql.scalar import Aggregates, ScalarBinder, Windows
from freshet.sql.scope import Scope
from freshet.sql.selection import Selection
from freshet.sql.set_operation import bind_set_operation
from freshet.sql.source import sql_of
from freshet.sql.subquery import bind_conditions
from freshet.sql.subquery_value import bind_value
from freshet.sql.values import bind_values


class SelectBinder(Binder):
    def query(self, node: exp.Expr, ordered: bool = False) -> AnyQuery:
        """`ordered`: whoever asks reads the rows in the order that is written; else they are a bag."""
        bound = self._query(node, ordered)
        check_relations(self.statement.extents.relations(bound), self.statement, node)
        return bound

    def _query(self, node: exp.Expr, ordered: bool) -> AnyQuery:
        with self.common_tables(node):
            if isinstance(node, exp.Subquery):
                check_clauses(self.statement, node)
                return limited(self, node, self.query(node.this, ordered), ordered)
            if isinstance(node, exp.SetOperation):
                return limited(self, node, bind_set_operation(self, node), ordered)
            if isinstance(node, exp.Values):
                return limited(self, node, bind_values(self, node), ordered)
            if not isinstance(node, exp.Select):
                self.statement.refuse(sql_of(node), "write a SELECT", node)
            return Selection(self, node).bind(ordered)

    def nested(self, node: exp.Expr, around: Scope | None = None) -> AnyQuery:
        """A query of its own below this one: it sees the same tables, not this one's columns. `around`: those, where
        they are known, for errors."""
        below = SelectBinder(self.statement, self.catalog, self.ctes, learnt=self.learnt)
        below.beyond = around or self.beyond or (None if self.outer is None else self.outer.scope)
        return below.query(node)

    def inner(self, place: Place, asks: Sequence[Name]) -> SelectBinder:
        """The binder of a subquery that hangs there and is lent those columns."""
        return SelectBinder(self.statement, self.catalog, self.ctes, place, asks, self.learnt)

    def derived(self, node: exp.Subquery, scope: Scope) -> Derived:
        """A FROM subquery."""
        return bind_derived(self, node, scope)

    def scalar(
        self, scope: Scope, clause: str, aggregate: Aggregates | None = None, draft: Draft | None = None
    ) -> ScalarBinder:
        """`draft`: where subqueries hang; none may stand there otherwise."""
        made = ScalarBinder(self.statement, lambda node: scope.resolve(node, self.statement), clause, aggregate)
        return made if draft is None else self.with_subqueries(made, Place(self, scope, draft))

    def with_subqueries(self, scalar: ScalarBinder, place: Place) -> ScalarBinder:
        scalar.subquery = lambda node: bind_value(place, node, lambda part: place.read(scalar.bind(part), part))
        return scalar

    def equal(self, left: Expression, right: Expression, node: exp.Expr) -> Expression:
        return self.scalar(Scope(), "USING").build("eq", [left, right], node)

    def conditions(self, node: exp.Expr, scope: Scope, draft: Draft, clause: str) -> None:
        bind_conditions(self, node, scope, draft, clause)

    @contextmanager
    def common_tables(self, node: exp.Expr, around: Scope | None = None) -> Iterator[None]:
        before, clause = dict(self.ctes), node.args.get("with_")
        if clause is not None:
            if clause.args.get("recursive"):
                self.statement.refuse("WITH RECURSIVE", "write the steps out as joins, up to a fixed depth", clause)
            self.statement.only(clause, ("expressions",))
            named: set[str] = set()
            for cte in clause.expressions:
                self.statement.only(cte, ("this", "alias"))
                if cte.alias.lower() in named:
                    self.statement.fail(f"WITH names {cte.alias} twice; name its queries apart", cte.args["alias"])
                named.add(cte.alias.lower())
                self.ctes[cte.alias.lower()] = self._named(cte, around)
        try:
            yield
        finally:
            self.ctes = before

    def _named(self, cte: exp.Expr, around: Scope | None) -> AnyQuery:
        query, names = self.nested(cte.this, around), cte.args["alias"].columns
        if not names:
            return query
        if len(names) != len(query.fields):
            message = f"{cte.alias} names {len(names)} columns, but its query has {len(query.fields)}; name each once"
            self.statement.fail(message, cte)
        fields = (replace(f, name=n.name) for n, f in zip(names, query.fields, strict=True))
        return replace(query, fields=tuple(fields))

    def project(
        self,
        node: exp.Select,
        scope: Scope,
        aggregate: Aggregates | None = None,
        window: Windows | None = None,
        draft: Draft | None = None,
        place: Place | None = None,
    ) -> list[Output]:
        """The select list over the relations (aggregates already as columns of the group's row)."""
        outputs: list[Output] = []
        names = Names(scope, self.statement).in_select_list(outputs)
        scalar = ScalarBinder(self.statement, names, "SELECT", aggregate, window)
        parts = 0
        if draft is not None:
            place = Place(self, scope, draft)
        if place is not None:
            self.with_subqueries(scalar, place)
        for item in node.expressions:
            star = expand_star(item, scope, self.statement)
            if star is not None:
                outputs += star
            else:
                inner = item.this if isinstance(item, exp.Alias) else item
                outputs.append(Output(output_name(item), scalar.bind(inner), item, isinstance(item, exp.Alias)))
                parts += self.statement.extents.parts(outputs[-1].expression)
                check_parts(parts, self.statement, item)
        if not outputs:
            self.statement.fail("EXCEPT leaves no column of *; leave out fewer", node.expressions[0])
        return outputs
