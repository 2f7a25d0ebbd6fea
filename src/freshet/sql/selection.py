"""One SELECT: its clauses, bound in the order they take effect, and the queries built from them.

FROM and WHERE become a block, GROUP BY and HAVING a grouping; window functions read the result of those; then come
QUALIFY, the outputs, DISTINCT, and ORDER BY with LIMIT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from freshet.aggregates import function_of
from freshet.logical.apply import has_apply
from freshet.logical.extent import check_sets
from freshet.logical.grouping_sets import count_sets, has_sets, key_sets, one_set
from freshet.logical.query import AnyQuery, Block, Field, Query, Relation, Sorted, TopK, UnionAll
from freshet.logical.references import GroupingRef, OuterRef, WindowRef
from freshet.logical.rewrite.blocks import NAMELESS, conjuncts, select_all
from freshet.scalar import functions, types
from freshet.scalar.describe import describe, describe_aggregate
from freshet.scalar.expression import ColumnRef, Expression, GroupRef, Reference, transform, walk
from freshet.sql.binder import Binder, Draft
from freshet.sql.clauses import all_keys, check_clauses, has_window, is_grand, is_grouped
from freshet.sql.datatype import check_compared
from freshet.sql.from_clause import bind_from
from freshet.sql.generator import bind_generator, generator_of
from freshet.sql.group import Groups
from freshet.sql.limit import as_position, bind_limit, bind_order, check_distinct, hidden_fields, placed, takes_any_rows
from freshet.sql.names import Names
from freshet.sql.projection import Output, expand_star
from freshet.sql.scalar import Columns, ScalarBinder
from freshet.sql.scope import NameScope
from freshet.sql.session_window import bind_session_window, other_keys
from freshet.sql.time_window import bind_time_window, time_window_of
from freshet.sql.window import Windows


class Selection:
    def __init__(self, binder: Binder, node: exp.Select) -> None:
        node, self.time_window = time_window_of(node, binder.statement)
        self.binder, self.node, self.statement = binder, node, binder.statement
        aliases = frozenset(e.alias.lower() for e in node.expressions if isinstance(e, exp.Alias))
        self.scope, self.draft = NameScope(around=binder.around, outputs=aliases, beyond=binder.beyond), Draft()
        self.groups = Groups(binder, self.scope) if is_grouped(node) else None
        self.windows = Windows(self.statement, node, self._above)
        self.names = Names(self.scope, self.statement, self._at_outputs)
        self.keys: list[exp.Expr] = []  # of GROUP BY, as written

    def bind(self, ordered: bool = False) -> AnyQuery:
        """`ordered`: whether the caller reads the rows in their order."""
        node = self.node
        check_clauses(self.statement, node)
        bind_from(self.binder, node, self.scope, self.draft)
        if node.args.get("where"):
            self.binder.conditions(node.args["where"].this, self.scope, self.draft, "WHERE")
        if self.time_window is not None:
            self._bind_time_window(self.time_window)
        for item in node.expressions:
            self._explode(item)
        if self.groups is not None:
            self._bind_keys(self.groups)
        outputs = self._outputs()
        having, qualify = self._condition("having", outputs), self._condition("qualify", outputs)
        limit, kept = bind_limit(self.binder, node), self._bound_so_far()
        if self.binder.around is not None and is_grand(node) and limit is not None:
            limit = None if not limit.offset and limit.rows != 0 else limit  # it has at most one row
        order = bind_order(
            node, [o.expression for o in outputs], self.statement, self._reader(outputs), self._knows(outputs)
        )
        distinct, names = node.args.get("distinct") is not None, [o.name for o in outputs]
        expressions = [o.expression for o in outputs]
        if distinct:
            check_distinct(order, expressions, self.statement)
            for output in outputs:
                check_compared(output.expression.type, "SELECT DISTINCT of", self.statement, output.node)
        if limit is None and not ordered:
            order = []
            self._forget_since(kept)
        if self.binder.around is not None and self.groups is not None:
            self._check_aggregates(self.groups)
        shown = len(expressions)
        keys = placed(order, expressions, takes_any_rows(self.binder, limit))
        pairs = zip(names, expressions[:shown], strict=True)
        fields = [Field(name, e.type, functions.nullable(e)) for name, e in pairs]
        fields += hidden_fields(expressions[shown:])
        bound = self._query(expressions, tuple(fields), having, qualify, distinct)
        if limit is None:
            return Sorted(bound, keys, bound.fields[:shown]) if keys else bound
        return TopK(bound, (), keys, limit.offset, limit.rows, False, bound.fields[:shown])

    def _bind_time_window(self, call: exp.Expr) -> None:
        if call.name.lower() == "window":
            bind_time_window(self.binder, self.scope, self.draft, call)
            return
        others = other_keys(self.node, self.statement, call)
        keys = [self._key(item) for item in others]
        self.keys.clear()
        bind_session_window(self.binder, self.scope, self.draft, call, keys)

    def _explode(self, item: exp.Expr) -> None:
        """An item of the select list that is a generator reads the rows after WHERE, as LATERAL VIEW does."""
        generator = generator_of(item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item, self.statement)
        if generator is None:
            return
        if self.groups is not None or has_window(self.node):
            what = f"{generator.shown} next to aggregates or window functions"
            self.statement.refuse(what, "compute these in a FROM subquery", item)
        names = (item.alias,) if isinstance(item, exp.Alias) else ()
        if isinstance(item, exp.Aliases):
            names = tuple(e.name for e in item.expressions)
        before = self.scope.columns
        columns = bind_generator(self.binder, replace(generator, names=names), self.scope, self.draft, 0)
        entry = self.scope.entries[columns.shown[0].entry]
        pairs = [(f.name, entry.column(i)) for i, f in enumerate(entry.fields)]
        self.scope.generated[id(item)] = pairs
        self.scope.columns = before

    def _check_aggregates(self, groups: Groups) -> None:
        """Refuses an aggregate in a subquery that reads only columns of the enclosing query: SQL makes it an aggregate
        of that query."""
        for call in groups.aggregates:
            columns = [e for a in call.args for e in walk(a) if isinstance(e, Reference)]
            if columns and all(isinstance(e, OuterRef) for e in columns):
                what = "an aggregate of the enclosing query inside a subquery"
                self.statement.refuse(what, "compute it in a FROM subquery of the enclosing query", self.node)

    def _query(
        self,
        expressions: list[Expression],
        fields: tuple[Field, ...],
        having: Expression | None,
        qualify: Expression | None,
        distinct: bool,
    ) -> AnyQuery:
        if not self.windows.calls:
            return self._grouped(expressions, fields, having, distinct)
        inner, above = self.windows.split([*expressions, *([] if qualify is None else [qualify])])
        below = self._grouped(inner, hidden_fields(inner), having, False)
        source, above = self.windows.over(below, inner, above)
        tests = () if qualify is None else tuple(conjuncts(above.pop()))
        relation = Relation(NAMELESS, source, source.fields)
        return Query((relation,), Block((0,), tests), (), None, tuple(above), fields, distinct)

    def _grouped(
        self, expressions: Sequence[Expression], fields: tuple[Field, ...], having: Expression | None, distinct: bool
    ) -> AnyQuery:
        """FROM to HAVING, and expressions over the result: one query, or one for each set of keys."""
        relations, block = tuple(self.binder.relations), self.draft.block()
        grouping = None if self.groups is None else self.groups.grouping(having)
        if self.groups is None or grouping is None or not self.groups.has_sets:
            return Query(relations, block, (), grouping, tuple(expressions), fields, distinct)
        if any(map(has_apply, expressions)) or (having is not None and has_apply(having)):
            return self._above_sets(self.groups, expressions, fields, having, distinct)
        parts = []
        for keys in self.groups.sets:
            own, outputs = one_set(grouping, keys, expressions, len(self.groups.sets) == 1 and not grouping.keys)
            nullable = (functions.nullable(o) for o in outputs)
            shown = tuple(replace(f, nullable=n) for f, n in zip(fields, nullable, strict=True))
            parts.append(Query(relations, block, (), own, tuple(outputs), shown))
        nullable = (any(p.fields[i].nullable for p in parts) for i in range(len(fields)))
        shown = tuple(replace(f, nullable=n) for f, n in zip(fields, nullable, strict=True))
        whole: UnionAll[AnyQuery] = UnionAll(tuple(parts), shown)
        return replace(select_all(whole), distinct=True) if distinct else whole

    def _above_sets(
        self,
        groups: Groups,
        expressions: Sequence[Expression],
        fields: tuple[Field, ...],
        having: Expression | None,
        distinct: bool,
    ) -> AnyQuery:
        """Subqueries above grouping sets: they are joined once with the groups of all sets, not with those of each."""
        row: list[Expression] = []
        for i, k in enumerate(groups.keys):
            row.append(GroupRef(k.type, i, describe(k), functions.nullable(k)))
        for call in groups.aggregates:
            nullable = function_of(call).nullable(call, bool(groups.keys))
            row.append(GroupRef(call.type, len(row), describe_aggregate(call), nullable))
        marks = len(row)
        row += [GroupingRef(types.TINYINT, i) for i in range(len(groups.keys))]
        below = self._grouped(row, hidden_fields(row), None, False)

        def moved(e: Expression) -> Expression:
            if isinstance(e, GroupRef):
                return ColumnRef(e.type, 0, e.column, e.name, below.fields[e.column].nullable)
            return ColumnRef(e.type, 0, marks + e.column, e.name, e.nullable) if isinstance(e, GroupingRef) else e

        conditions = () if having is None else tuple(transform(c, moved) for c in conjuncts(having))
        outputs = tuple(transform(e, moved) for e in expressions)
        relation = Relation("groups", below, below.fields)
        return Query((relation,), Block((0,), conditions), (), None, outputs, fields, distinct)

    # GROUP BY -----------------------------------------------------------------------------------------------------

    def _bind_keys(self, groups: Groups) -> None:
        group = self.node.args.get("group")
        groups.has_sets = has_sets(group)
        if group is not None and group.args.get("all"):
            sets = [[key for item in all_keys(self.node) for key in self._columns_of(item)]]
        else:
            check_sets(count_sets(group), self.statement, group)
            sets = [[self._key(item) for item in items] for items in key_sets(group)]
            if group is not None and group.args.get(
                "grouping_sets"
            ):  # keys written before the sets may be read, as NULL
                for item in group.expressions:
                    groups.add_key(self._key(item))
        for keys in sets:
            groups.sets.append([groups.add_key(k) for k in keys])

    def _columns_of(self, item: exp.Expr) -> list[Expression]:
        """An item of the select list as keys: its expression, or each column of *."""
        star = expand_star(item, self.scope, self.statement)
        return [self._bind_key(item)] if star is None else [o.expression for o in star]

    def _key(self, item: exp.Expr) -> Expression:
        """One GROUP BY item: a position in the select list, or an expression."""
        position = as_position(item)
        if position is None:
            return self._bind_key(item)
        items = self.node.expressions
        if not 1 <= position <= len(items):
            message = f"GROUP BY {position} is not a valid position; the select list has 1 to {len(items)}"
            self.statement.fail(message, item)
        if any(expand_star(e, self.scope, self.statement) is not None for e in items):
            self.statement.refuse("GROUP BY a position next to *", "name the columns", item)
        return self._bind_key(items[position - 1].unalias())

    def _bind_key(self, item: exp.Expr) -> Expression:
        self.keys.append(item)
        key = self._key_at(item)
        check_compared(key.type, "GROUP BY", self.statement, item)
        return key

    def _key_at(self, item: exp.Expr) -> Expression:
        def bind(node: exp.Expr, names: Columns) -> Expression:
            scalar = ScalarBinder(self.statement, names, "GROUP BY")
            return self.binder.with_subqueries(scalar, self.scope).bind(node)

        return bind(item, self.names.in_group_by(self.node.expressions, bind))

    def _above(self, expression: Expression, node: exp.Expr) -> Expression:
        """An expression over the relations, in terms of the row that outputs are computed from."""
        return expression if self.groups is None else self.groups.above(expression, node)

    def _at_outputs(self, column: Expression) -> Expression | None:
        """A column of FROM, in terms of the row that outputs are computed from; None if it is not a key of GROUP BY."""
        return column if self.groups is None else self.groups.key_of(column)

    # Clauses that read the groups ---------------------------------------------------------------------------------

    def _outputs(self) -> list[Output]:
        aggregate = None if self.groups is None else self.groups.aggregate
        raw = self.binder.project(self.node, self.scope, aggregate, self.windows.bind)
        return [Output(o.name, self._above(o.expression, o.node), o.node, o.alias) for o in raw]

    def _condition(self, clause: str, outputs: Sequence[Output]) -> Expression | None:
        if not self.node.args.get(clause):
            return None
        condition = self.node.args[clause].this
        if clause == "having":
            names = self.names.in_having(outputs, condition, self.keys)
        elif self.windows.calls or has_window(condition):
            names = self.names.in_qualify(outputs)
        else:
            self.statement.fail(
                "QUALIFY without a window function; filter rows with WHERE, groups with HAVING", condition
            )
        bound = self._above(self._over_outputs(names, clause.upper()).condition(condition), condition)
        if clause == "having" and any(isinstance(e, WindowRef) for e in walk(bound)):
            message = "HAVING reads an output that is a window function; filter those with QUALIFY"
            self.statement.fail(message, condition)
        return bound

    def _reader(self, outputs: Sequence[Output]) -> Callable[[exp.Expr], Expression]:
        scalar = self._over_outputs(self.names.in_order_by(outputs), "ORDER BY")
        return lambda target: self._above(scalar.bind(target), target)

    def _knows(self, outputs: Sequence[Output]) -> Callable[[str], bool]:
        return lambda name: any(o.name.lower() == name.lower() for o in outputs) or self.scope.knows(name)

    def _over_outputs(self, names: Columns, clause: str) -> ScalarBinder:
        aggregate = None if self.groups is None else self.groups.aggregate
        window = None if clause == "HAVING" else self.windows.bind
        scalar = ScalarBinder(self.statement, names, clause, aggregate, window)
        return self.binder.with_subqueries(scalar, self.scope)

    def _bound_so_far(self) -> tuple[int, int]:
        return 0 if self.groups is None else len(self.groups.aggregates), len(self.windows.calls)

    def _forget_since(self, kept: tuple[int, int]) -> None:
        if self.groups is not None:
            del self.groups.aggregates[kept[0] :]
        del self.windows.calls[kept[1] :]
