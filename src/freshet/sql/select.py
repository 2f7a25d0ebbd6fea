"""Queries: parsed node → bound query.

One binder serves one select, whose relations are numbered together. Subqueries, FROM subqueries, views and CTEs are
separate selects; the rewrites merge them where that is sound.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from freshet.errors import UnsupportedError
from freshet.logical.extent import check_parts, check_relations
from freshet.logical.final import emit_final
from freshet.logical.query import AnyQuery
from freshet.scalar.expression import Expression
from freshet.sql.binder import Binder, CommonTable, Draft
from freshet.sql.clauses import bare, check_clauses
from freshet.sql.limit import limited
from freshet.sql.names import Names
from freshet.sql.projection import Output, expand_star, output_name
from freshet.sql.recursive import bind_recursive
from freshet.sql.scalar import Aggregates, ScalarBinder, Windows
from freshet.sql.scope import Around, NameScope
from freshet.sql.selection import Selection
from freshet.sql.set_operation import bind_set_operation
from freshet.sql.source import LEVELS, sql_of
from freshet.sql.subquery import bind_conditions, bind_subquery
from freshet.sql.values import bind_values


class SelectBinder(Binder):
    def whole(self, node: exp.Expr, ordered: bool = False) -> AnyQuery:
        """The query of a statement, which may end with EMIT FINAL."""
        bound = self.query(node, ordered)
        if not self.statement.final:
            return bound
        try:
            return emit_final(bound)
        except UnsupportedError as e:
            raise self.statement.placed(e, None) from None

    def query(self, node: exp.Expr, ordered: bool = False) -> AnyQuery:
        """`ordered`: whether the caller reads the rows in the written order; otherwise they are a bag."""
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

    def nested(self, node: exp.Expr, beyond: NameScope | None = None) -> AnyQuery:
        """A separate query below this one: it sees the same tables and the same surroundings, but not this query's
        columns, which are `beyond`."""
        return SelectBinder(self.statement, self.catalog, self.ctes, self.around, beyond or self.beyond).query(node)

    def subquery(self, node: exp.Expr, scope: NameScope, exists: bool) -> tuple[AnyQuery, Around]:
        """A subquery in an expression of that scope, and the columns it reads from it. An item of the select list that
        GROUP BY refers to is bound in both places, but its subqueries only once."""
        node = bare(node)
        if id(node) not in scope.subqueries:
            around = Around(scope)
            query = SelectBinder(self.statement, self.catalog, self.ctes, around, exists=exists).query(node)
            scope.subqueries[id(node)] = query, around
        return scope.subqueries[id(node)]

    def scalar(
        self, scope: NameScope, clause: str, aggregate: Aggregates | None = None, subqueries: bool = False
    ) -> ScalarBinder:
        """`subqueries`: whether they are allowed."""
        made = ScalarBinder(self.statement, lambda node: scope.resolve(node, self.statement), clause, aggregate)
        made.scope = scope
        return self.with_subqueries(made, scope) if subqueries else made

    def with_subqueries(self, scalar: ScalarBinder, scope: NameScope) -> ScalarBinder:
        scalar.subquery = lambda node: bind_subquery(self, scope, node, scalar)
        scalar.scope = scope
        return scalar

    def equal(self, left: Expression, right: Expression, node: exp.Expr) -> Expression:
        return self.scalar(NameScope(), "USING").build("eq", [left, right], node)

    def conditions(self, node: exp.Expr, scope: NameScope, draft: Draft, clause: str) -> None:
        bind_conditions(self, node, scope, draft, clause)

    @contextmanager
    def common_tables(self, node: exp.Expr) -> Iterator[None]:
        before, clause = dict(self.ctes), node.args.get("with_")
        if clause is not None:
            self.statement.only(clause, ("expressions", "recursive"))
            named: set[str] = set()
            for cte in clause.expressions:
                self.statement.only(cte, ("this", "alias"))
                if cte.alias.lower() in named:
                    self.statement.fail(f"WITH defines {cte.alias} twice; rename one of them", cte.args["alias"])
                named.add(cte.alias.lower())
                query = None
                if clause.args.get("recursive"):
                    query = bind_recursive(SelectBinder(self.statement, self.catalog, self.ctes, self.around), cte)
                elif LEVELS in cte.args["alias"].meta:
                    self.statement.fail("MAX RECURSION LEVEL needs WITH RECURSIVE; write that", cte)
                self.ctes[cte.alias.lower()] = CommonTable(query or self._named(cte), self.around)
        try:
            yield
        finally:
            self.ctes = before

    def _named(self, cte: exp.Expr) -> AnyQuery:
        query, names = self.nested(cte.this), cte.args["alias"].columns
        if not names:
            return query
        if len(names) != len(query.fields):
            message = f"{cte.alias} names {len(names)} columns, but its query has {len(query.fields)}; name each once"
            self.statement.fail(message, cte)
        fields = (replace(f, name=n.name) for n, f in zip(names, query.fields, strict=True))
        return replace(query, fields=tuple(fields))

    def project(
        self, node: exp.Select, scope: NameScope, aggregate: Aggregates | None = None, window: Windows | None = None
    ) -> list[Output]:
        """The select list over the relations (aggregates already as columns of the group's row)."""
        outputs: list[Output] = []
        names = Names(scope, self.statement).in_select_list(outputs)
        scalar = self.with_subqueries(ScalarBinder(self.statement, names, "SELECT", aggregate, window), scope)
        parts = 0
        for item in node.expressions:
            made = scope.generated.get(id(item))
            star = expand_star(item, scope, self.statement)
            if made is not None:
                outputs += [Output(name, column, item) for name, column in made]
            elif star is not None:
                outputs += star
            else:
                inner = item.this if isinstance(item, exp.Alias) else item
                outputs.append(Output(output_name(item), scalar.bind(inner), item, isinstance(item, exp.Alias)))
                parts += self.statement.extents.parts(outputs[-1].expression)
                check_parts(parts, self.statement, item)
        if not outputs:
            self.statement.fail("EXCEPT removes every column of *; remove fewer", node.expressions[0])
        return outputs
