"""Queries: parsed node → bound query.

One binder serves one select and the EXISTS / IN subqueries inside it, since their relations share one numbering. FROM
subqueries, views and CTEs are selects of their own; the rewrites merge them where that is sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from freshet.sql import functions
from freshet.sql.bound import AnyQuery, Field, Grouping, Query, Relation, TopK
from freshet.sql.catalog import Catalog
from freshet.sql.clauses import check_clauses, is_grouped
from freshet.sql.expression import Expression
from freshet.sql.from_clause import Draft, bind_from
from freshet.sql.group import Groups
from freshet.sql.limit import Limit, Ordering, bind_limit, bind_order, check_distinct, hidden_fields, limited, placed
from freshet.sql.projection import Output, expand_star, output_name
from freshet.sql.rewrite import rewrite
from freshet.sql.rewrite.unwrap import unwrap
from freshet.sql.scalar import Aggregates, ScalarBinder
from freshet.sql.scope import Scope
from freshet.sql.set_operation import bind_set_operation
from freshet.sql.source import Statement
from freshet.sql.subquery import bind_conditions
from freshet.sql.values import bind_values


class SelectBinder:
    def __init__(self, statement: Statement, catalog: Catalog, ctes: dict[str, AnyQuery] | None = None) -> None:
        self.statement, self.catalog, self.ctes = statement, catalog, dict(ctes or {})
        self.relations: list[Relation] = []
        self.origins: list[exp.Expr] = []  # where each relation was written, for errors

    def query(self, node: exp.Expr) -> AnyQuery:
        with self.common_tables(node):
            if isinstance(node, exp.Subquery):
                check_clauses(self.statement, node)
                return limited(self, node, self.query(node.this))
            if isinstance(node, exp.SetOperation):
                return limited(self, node, bind_set_operation(self, node))
            if isinstance(node, exp.Values):
                return bind_values(self, node)
            if not isinstance(node, exp.Select):
                self.statement.refuse(node.sql(dialect="spark"), "write a SELECT", node)
            return self._select(node)

    def nested(self, node: exp.Expr) -> AnyQuery:
        """A query of its own below this one: it sees the same tables, not this one's columns."""
        return SelectBinder(self.statement, self.catalog, self.ctes).query(node)

    def add_relation(self, relation: Relation, origin: exp.Expr) -> int:
        self.relations.append(relation)
        self.origins.append(origin)
        return len(self.relations) - 1

    def scalar(self, scope: Scope, clause: str, aggregate: Aggregates | None = None) -> ScalarBinder:
        return ScalarBinder(self.statement, lambda node: scope.resolve(node, self.statement), clause, aggregate)

    def equal(self, left: Expression, right: Expression, node: exp.Expr) -> Expression:
        return self.scalar(Scope(), "USING").build("eq", [left, right], node)

    def conditions(self, node: exp.Expr, scope: Scope, draft: Draft, clause: str) -> None:
        bind_conditions(self, node, scope, draft, clause)

    @contextmanager
    def common_tables(self, node: exp.Expr) -> Iterator[None]:
        """The node's WITH: each name is bound once and stands for its query until the node ends."""
        before, clause = dict(self.ctes), node.args.get("with_")
        if clause is not None:
            if clause.args.get("recursive"):
                self.statement.refuse("WITH RECURSIVE", "write the steps out as joins, up to a fixed depth", clause)
            self.statement.only(clause, ("expressions",))
            for cte in clause.expressions:
                self.statement.only(cte, ("this", "alias"))
                self.ctes[cte.alias.lower()] = self._named(cte)
        yield
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

    # The clauses --------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Select) -> AnyQuery:
        check_clauses(self.statement, node)
        scope, draft = Scope(), Draft()
        bind_from(self, node, scope, draft)
        if node.args.get("where"):
            self.conditions(node.args["where"].this, scope, draft, "WHERE")
        limit = bind_limit(self, node)
        outputs, grouping, order = self._grouped(node, scope, limit) if is_grouped(node) else self._plain(node, scope)
        distinct, names = node.args.get("distinct") is not None, [o.name for o in outputs]
        expressions = [o.expression for o in outputs]
        if distinct and limit is not None:
            check_distinct(order, expressions, self.statement)
        keys = placed(order, expressions) if limit is not None else ()
        fields = (*_named(names, expressions), *hidden_fields(expressions[len(names) :]))
        query = Query(tuple(self.relations), draft.block(), (), grouping, tuple(expressions), fields, distinct)
        bound = unwrap(rewrite(query, self.statement, self.origins))
        if limit is None:
            return bound
        return TopK(bound, (), keys, limit.offset, limit.rows, False, bound.fields[: len(names)])

    def _plain(self, node: exp.Select, scope: Scope) -> tuple[list[Output], None, list[Ordering]]:
        outputs = self.project(node, scope)
        return outputs, None, self._order(node, scope, outputs, None)

    def project(self, node: exp.Select, scope: Scope, aggregate: Aggregates | None = None) -> list[Output]:
        """The select list over the relations (aggregates already as columns of the group's row). A name that FROM does
        not have may be an output to its left, as in Spark."""
        outputs: list[Output] = []

        def column(name: exp.Column) -> Expression:
            if not name.table and not scope.find(name.name, None):
                for output in outputs:
                    if output.alias and output.name.lower() == name.name.lower():
                        return output.expression
            return scope.resolve(name, self.statement)

        scalar = ScalarBinder(self.statement, column, "SELECT", aggregate)
        for item in node.expressions:
            star = expand_star(item, scope, self.statement)
            if star is not None:
                outputs += star
            else:
                inner = item.this if isinstance(item, exp.Alias) else item
                outputs.append(Output(output_name(item), scalar.bind(inner), item, isinstance(item, exp.Alias)))
        return outputs

    def _grouped(
        self, node: exp.Select, scope: Scope, limit: Limit | None
    ) -> tuple[list[Output], Grouping, list[Ordering]]:
        groups = Groups(self, scope, [])
        for item in node.args["group"].expressions if node.args.get("group") else []:
            key = self._key(item, node, scope)
            if key not in groups.keys:
                groups.keys.append(key)
        raw = self.project(node, scope, groups.aggregate)
        outputs = [Output(o.name, groups.above(o.expression, o.node), o.node, o.alias) for o in raw]
        having = None
        if node.args.get("having"):
            condition = node.args["having"].this
            scalar = self._over_outputs(scope, outputs, "HAVING", groups)
            having = groups.above(scalar.condition(condition), condition)
        shown = len(groups.aggregates)
        order = self._order(node, scope, outputs, groups)
        aggregates = groups.aggregates if limit is not None else groups.aggregates[:shown]
        return outputs, Grouping(tuple(groups.keys), tuple(aggregates), having), order

    def _key(self, item: exp.Expr, node: exp.Select, scope: Scope) -> Expression:
        """One GROUP BY item: a position in the select list, a column of FROM, an output's alias, or an expression."""
        target = item
        if isinstance(item, exp.Literal) and not item.is_string:
            position = int(item.name) if item.is_int else 0
            if not 1 <= position <= len(node.expressions):
                many = len(node.expressions)
                self.statement.fail(f"GROUP BY {item.name} is no position; the select list has 1 to {many}", item)
            target = node.expressions[position - 1].unalias()
            if expand_star(target, scope, self.statement) is not None:
                self.statement.refuse("GROUP BY a position of *", "name the columns", item)
        elif isinstance(item, exp.Column) and not item.table and not scope.find(item.name, None):
            aliased = (e for e in node.expressions if isinstance(e, exp.Alias) and e.alias.lower() == item.name.lower())
            target = next((e.this for e in aliased), item)
        return self.scalar(scope, "GROUP BY").bind(target)

    def _over_outputs(self, scope: Scope, outputs: list[Output], clause: str, groups: Groups | None) -> ScalarBinder:
        """HAVING and ORDER BY read the outputs by name first, then FROM."""

        def column(name: exp.Column) -> Expression:
            found = [o.expression for o in outputs if not name.table and o.name.lower() == name.name.lower()]
            return found[0] if found else scope.resolve(name, self.statement)

        return ScalarBinder(self.statement, column, clause, groups.aggregate if groups else None)

    def _order(self, node: exp.Select, scope: Scope, outputs: list[Output], groups: Groups | None) -> list[Ordering]:
        scalar = self._over_outputs(scope, outputs, "ORDER BY", groups)

        def bind(target: exp.Expr) -> Expression:
            return groups.above(scalar.bind(target), target) if groups else scalar.bind(target)

        return bind_order(node, [o.expression for o in outputs], self.statement, bind)


def _named(names: Sequence[str], expressions: Sequence[Expression]) -> list[Field]:
    pairs = zip(names, expressions, strict=False)
    return [Field(name, e.type, functions.nullable(e)) for name, e in pairs]
