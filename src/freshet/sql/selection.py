"""One SELECT: its clauses bound in the order they take effect, and the queries that stand for them.

FROM and WHERE make a block; GROUP BY and HAVING a grouping; window functions read what those leave; then come
QUALIFY, the outputs, DISTINCT, and ORDER BY with LIMIT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from freshet.aggregates import function_of
from freshet.logical.extent import check_sets
from freshet.logical.grouping_sets import count_sets, has_sets, key_sets, one_set
from freshet.logical.query import AnyQuery, Block, Field, Query, Relation, Sorted, TopK, UnionAll
from freshet.logical.references import BesideRef, GroupingRef, OuterRef, WindowRef, outer_columns
from freshet.logical.rewrite.blocks import NAMELESS, conjuncts, map_block_expressions, map_blocks
from freshet.scalar import functions, types
from freshet.scalar.describe import describe
from freshet.scalar.expression import (
    FALSE,
    TRUE,
    AggregateCall,
    ColumnRef,
    Expression,
    GroupRef,
    Literal,
    Reference,
    transform,
    walk,
)
from freshet.sql.binder import Binder, Draft, Place, Unasked
from freshet.sql.clauses import all_keys, check_clauses, has_window, is_grand, is_grouped
from freshet.sql.correlate import Asked, lend, lift
from freshet.sql.from_clause import bind_from
from freshet.sql.group import Groups, describe_aggregate
from freshet.sql.inner_values import on_no_rows, split_values
from freshet.sql.limit import as_position, bind_limit, bind_order, check_distinct, hidden_fields, placed
from freshet.sql.names import Names
from freshet.sql.projection import Output, expand_star
from freshet.sql.scalar import Columns, ScalarBinder
from freshet.sql.scope import Scope
from freshet.sql.widen import select_all
from freshet.sql.window import Windows


class Selection:
    def __init__(self, binder: Binder, node: exp.Select) -> None:
        self.binder, self.node, self.statement = binder, node, binder.statement
        around = None if binder.outer is None else binder.outer.scope
        aliases = frozenset(e.alias.lower() for e in node.expressions if isinstance(e, exp.Alias))
        self.scope, self.draft = Scope(parent=around, apart=True, outputs=aliases, beyond=binder.beyond), Draft()
        self.groups = Groups(binder, self.scope, self.draft) if is_grouped(node) else None
        self.windows = Windows(self.statement, node, self._above)
        self.names = Names(self.scope, self.statement, self._above)
        self.asked: list[Asked] = []  # by what the query around finds this one's rows
        self.values: list[Expression] = []  # what the select list shows, as the query around reads it
        self.empty: list[Expression] = []  # the same where no row is found
        self.shown: list[str] = []  # the names of the columns
        self.one_row = binder.outer is not None and is_grand(node)  # the query around reads it as values, NULL if none
        self.beside: list[Relation] = []  # subqueries read above the grouping
        self.upper = Draft()  # and how they are joined to it
        grouped = self.groups is not None
        self.place = Place(
            binder,
            self.scope,
            self.upper if grouped else self.draft,
            self._above,
            self.beside if grouped else None,
        )

    def bind(self, ordered: bool = False) -> AnyQuery:
        """`ordered`: whoever asks reads the rows in their order."""
        node = self.node
        check_clauses(self.statement, node)
        self.asked = lend(self.binder, self.scope, self.draft, node)
        bind_from(self.binder, node, self.scope, self.draft)
        if node.args.get("where"):
            self.binder.conditions(node.args["where"].this, self.scope, self.draft, "WHERE")
        self.asked += lift(self.binder, self.draft, node)
        if self.groups is not None:
            self._bind_keys(self.groups)
        outputs = self._outputs()
        having, qualify = self._condition("having", outputs), self._condition("qualify", outputs)
        limit, kept = bind_limit(self.binder, node), self._bound_so_far()
        if self.one_row and limit is not None and not limit.offset and limit.rows != 0:
            limit = None
        order = bind_order(node, [o.expression for o in outputs], self.statement, self._reader(outputs))
        distinct, names = node.args.get("distinct") is not None, [o.name for o in outputs]
        self.shown = names
        expressions = [o.expression for o in outputs]
        if distinct:
            check_distinct(order, expressions, self.statement)
        if limit is None and not ordered:
            order = []
            self._forget_since(kept)
        if self.binder.outer is not None:
            later = [*([] if qualify is None else [qualify]), *(o.expression for o in order)]
            having = self._as_values(expressions, having, later, distinct)
            names = [describe(e) for e in expressions]
        shown = len(expressions)
        keys = placed(order, expressions)
        pairs = zip(names, expressions[:shown], strict=True)
        fields = [Field(name, e.type, functions.nullable(e)) for name, e in pairs]
        fields += hidden_fields(expressions[shown:])
        bound = self._query(expressions, tuple(fields), having, qualify, distinct)
        if limit is None:
            return Sorted(bound, keys, bound.fields[:shown]) if keys else bound
        partition = tuple(range(shown - len(self.asked), shown))
        return TopK(bound, partition, keys, limit.offset, limit.rows, False, bound.fields[:shown])

    def _as_values(
        self, expressions: list[Expression], having: Expression | None, later: Sequence[Expression], distinct: bool
    ) -> Expression | None:
        """A subquery's select list: what it computes itself, then its keys. Returns what is left of HAVING. `later`:
        what QUALIFY and ORDER BY ... LIMIT read."""
        if self.one_row and self.asked and self.windows.calls:  # it has a value also where no row is found
            what = "a window function over the one group of a subquery that reads the query around it"
            self.statement.refuse(what, "group in a FROM subquery of it", self.node)
        if having is not None and self.one_row:
            expressions[:] = [functions.build("case", (having, e, Literal(e.type, None))) for e in expressions]
            expressions.append(functions.build("case", (having, TRUE, FALSE)))
            having = None
        if self.groups is not None:
            keys, calls, lent = self.groups.keys, self.groups.aggregates, self.scope.lent
            self.empty = [on_no_rows(e, keys, calls, lent) for e in expressions]
        inside = [*([] if having is None else [having]), *later, *self.windows.reads()]
        if self.groups is not None:
            inside += [*self.groups.keys, *self._aggregated(self.groups.aggregates)]
        needed = outer_columns([*inside, *(expressions if distinct else ())])
        if needed:
            raise Unasked(self.binder, needed)
        parts, self.values = split_values(expressions)
        if any(e != Literal(e.type, None) for e in self.empty):
            parts.append(Literal(types.INT, 1))  # tells a row found from none
        keys = [self._above(a.inner, self.node) for a in self.asked]
        self.windows.divide(keys)  # the rows under one key are those of one query
        expressions[:] = [*parts, *keys]
        return having

    def _aggregated(self, calls: Sequence[AggregateCall]) -> Iterator[Expression]:
        """What a subquery's aggregates read. One that reads the query around it alone is an aggregate of that query."""
        lent = self.scope.lent.values()
        for call in calls:
            columns = [e for a in call.args for e in walk(a) if isinstance(e, Reference)]
            if columns and all(isinstance(e, OuterRef) or e in lent for e in columns):
                what = "an aggregate of the query around a subquery, inside it,"
                self.statement.refuse(what, "compute it in a FROM subquery of the query around", self.node)
            yield from call.reads

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
        """FROM to HAVING, and expressions over that: one query, or one for each set of keys."""
        if self.beside:
            return self._beside_groups(expressions, fields, having, distinct)
        relations, block = tuple(self.binder.relations), self.draft.block()
        grouping = None if self.groups is None else self.groups.grouping(having)
        if self.groups is None or grouping is None or not self.groups.has_sets:
            return Query(relations, block, (), grouping, tuple(expressions), fields, distinct)
        parts = []
        for keys in self.groups.sets:
            own, outputs = one_set(grouping, keys, expressions)
            nullable = (functions.nullable(o) for o in outputs)
            shown = tuple(replace(f, nullable=n) for f, n in zip(fields, nullable, strict=True))
            parts.append(Query(relations, block, (), own, tuple(outputs), shown))
        nullable = (any(p.fields[i].nullable for p in parts) for i in range(len(fields)))
        whole = UnionAll(tuple(parts), tuple(replace(f, nullable=n) for f, n in zip(fields, nullable, strict=True)))
        return replace(select_all(whole), distinct=True) if distinct else whole

    def _beside_groups(
        self, expressions: Sequence[Expression], fields: tuple[Field, ...], having: Expression | None, distinct: bool
    ) -> AnyQuery:
        """A grouping whose rows are joined to subqueries: the groups are a relation, which this reads with them."""
        assert self.groups is not None
        beside, self.beside = self.beside, []
        keys = [GroupRef(k.type, i, describe(k), functions.nullable(k)) for i, k in enumerate(self.groups.keys)]
        row: list[Expression] = [*keys]
        for i, call in enumerate(self.groups.aggregates):
            nullable = function_of(call).nullable(call, bool(keys))
            row.append(GroupRef(call.type, len(keys) + i, describe_aggregate(call), nullable))
        marks = len(row)
        if self.groups.has_sets:
            row += [GroupingRef(types.TINYINT, i) for i in range(len(keys))]
        below = self._grouped(row, hidden_fields(row), None, False)

        def moved(e: Expression) -> Expression:
            if isinstance(e, GroupRef):
                return ColumnRef(e.type, 0, e.column, e.name, below.fields[e.column].nullable)
            if isinstance(e, GroupingRef):
                return ColumnRef(e.type, 0, marks + e.column, e.name, e.nullable)
            if isinstance(e, BesideRef):
                return ColumnRef(e.type, 1 + e.relation, e.column, e.name, e.nullable)
            return e

        block = map_block_expressions(self.upper.block(), moved)
        block = map_blocks(block, lambda b: replace(b, relations=tuple(1 + r for r in b.relations)))
        conditions = () if having is None else tuple(transform(c, moved) for c in conjuncts(having))
        block = replace(block, relations=(0, *block.relations), predicates=(*block.predicates, *conditions))
        relations = (Relation("groups", below, below.fields), *beside)
        outputs = tuple(transform(e, moved) for e in expressions)
        return Query(relations, block, (), None, outputs, fields, distinct)

    # GROUP BY -----------------------------------------------------------------------------------------------------

    def _bind_keys(self, groups: Groups) -> None:
        group = self.node.args.get("group")
        groups.has_sets = has_sets(group)
        if group is not None and group.args.get("all"):
            sets = [[key for item in all_keys(self.node) for key in self._columns_of(item)]]
        else:
            check_sets(count_sets(group), self.statement, group)
            sets = [[self._key(item) for item in items] for items in key_sets(group)]
            if group is not None and group.args.get("grouping_sets"):  # what stands before them may be read, as NULL
                for item in group.expressions:
                    groups.add_key(self._key(item))
        for keys in sets:
            groups.sets.append([groups.add_key(k) for k in keys])
        further = [a.inner for a in self.asked]
        for chosen in groups.sets:
            chosen += [groups.add_key(k) for k in further]
        read = {e for k in groups.keys for e in walk(k)}
        self.place.below = {text: value for text, value in self.draft.values.items() if value in read}

    def _columns_of(self, item: exp.Expr) -> list[Expression]:
        """An item of the select list, as keys: what it computes, or each column of *."""
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
        def bind(node: exp.Expr, names: Columns) -> Expression:
            scalar = ScalarBinder(self.statement, names, "GROUP BY")
            return self.binder.with_subqueries(scalar, Place(self.binder, self.scope, self.draft)).bind(node)

        return bind(item, self.names.in_group_by(self.node.expressions, bind))

    def _above(self, expression: Expression, node: exp.Expr) -> Expression:
        """An expression over the relations, as read where the outputs are computed."""
        return expression if self.groups is None else self.groups.above(expression, node)

    # What reads the groups ----------------------------------------------------------------------------------------

    def _outputs(self) -> list[Output]:
        aggregate = None if self.groups is None else self.groups.aggregate
        raw = self.binder.project(self.node, self.scope, aggregate, self.windows.bind, place=self.place)
        return [Output(o.name, self._above(o.expression, o.node), o.node, o.alias) for o in raw]

    def _condition(self, clause: str, outputs: Sequence[Output]) -> Expression | None:
        if not self.node.args.get(clause):
            return None
        condition = self.node.args[clause].this
        if clause == "having":
            keys = () if self.groups is None else self.groups.keys
            names = self.names.in_having(outputs, condition, keys)
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

    def _over_outputs(self, names: Columns, clause: str) -> ScalarBinder:
        aggregate = None if self.groups is None else self.groups.aggregate
        window = None if clause == "HAVING" else self.windows.bind
        scalar = ScalarBinder(self.statement, names, clause, aggregate, window)
        return self.binder.with_subqueries(scalar, self.place)

    def _bound_so_far(self) -> tuple[int, int]:
        return 0 if self.groups is None else len(self.groups.aggregates), len(self.windows.calls)

    def _forget_since(self, kept: tuple[int, int]) -> None:
        if self.groups is not None:
            del self.groups.aggregates[kept[0] :]
        del self.windows.calls[kept[1] :]
