"""The step of a recursive query, with the iteration that each of its rows is made from as one more column.

Law: a step is a function of the rows of one iteration. With the iteration as a column of these rows and of what is made
of them, the same query over the rows of all iterations gives the results of each: a select passes the column on, reads
that of one of its relations, and asks that all of them are of the same iteration. So DISTINCT and EXCEPT compare rows
of one iteration. A subquery in an expression is given the iteration of the row around it, as an argument; a select
that reads the recursion only in such subqueries is joined to the iterations that have rows. What may find nothing, or
too much, among the rows of other iterations has no such column: the inner side of a LEFT JOIN, groups, the first rows.
"""

from __future__ import annotations

from dataclasses import replace

from freshet.logical.apply import Apply, applies, own_expressions
from freshet.logical.query import (
    AnyQuery,
    Block,
    Field,
    Query,
    Recursive,
    RecursiveRows,
    Relation,
    SetOperation,
    TableSchema,
    TopK,
    UnionAll,
    Windowed,
    children,
    key,
    with_children,
)
from freshet.logical.references import OuterRef
from freshet.logical.rewrite.blocks import map_blocks, map_expressions
from freshet.scalar import functions
from freshet.scalar.expression import Expression
from freshet.scalar.types import INT

ITERATION = Field("iteration", INT, False)


class NotLinearError(Exception):
    """A query reads the rows of the recursion in a place where it must not: `what` names the place, `instead` the
    remedy."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(what)
        self.what, self.instead = what, instead


def numbered(rows: RecursiveRows) -> RecursiveRows:
    """The rows with the number of their iteration."""
    return replace(rows, fields=(*rows.fields, ITERATION))


def with_iteration(step: AnyQuery, rows: RecursiveRows) -> AnyQuery:
    """The step over rows that have the number of their iteration, with that as its last column."""
    return _Step(rows).numbered(step)


class _Step:
    def __init__(self, rows: RecursiveRows) -> None:
        self.rows, self.over = rows, numbered(rows)
        self._reads: dict[int, tuple[object, bool]] = {}  # by identity, which a query that is kept does not lose
        self._made: dict[int, tuple[AnyQuery, AnyQuery]] = {}

    def numbered(self, query: AnyQuery) -> AnyQuery:
        known = self._made.get(id(query))
        if known is None:
            known = self._made[id(query)] = query, self._numbered(query)
        return known[1]

    def _numbered(self, query: AnyQuery) -> AnyQuery:
        if isinstance(query, Query):
            return self._select(query)
        if isinstance(query, UnionAll):
            if not all(map(self.reads, query.inputs)):
                what = "in one part of a UNION ALL but not in all"
                raise NotLinearError(what, "write rows that do not depend on it into the anchor")
            return UnionAll(tuple(map(self.numbered, query.inputs)), (*query.fields, ITERATION))
        if isinstance(query, SetOperation) and self.reads(query.left) and self.reads(query.right):
            left, right = self.numbered(query.left), self.numbered(query.right)
            return replace(query, left=left, right=right, fields=(*query.fields, ITERATION))
        raise NotLinearError(*_named(query))

    def _select(self, query: Query) -> Query:
        block = query.block
        if query.grouping is not None:
            raise NotLinearError("in a query with aggregates or GROUP BY", "aggregate the rows of the whole recursion")
        if any(self.reads(query.relations[r].source) for arm in block.arms for r in arm.block.within()):
            what = "on the inner side of an outer join, or in a SEMI or ANTI JOIN"
            raise NotLinearError(what, "use an inner join, or put it on the side whose rows all stay")
        read = [r for r in block.relations if self.reads(query.relations[r].source)]
        relations = list(query.relations)
        for r in read:
            source = relations[r].source
            made = self.over if isinstance(source, TableSchema) else self.numbered(source)
            relations[r] = replace(relations[r], source=made, fields=(*relations[r].fields, ITERATION))
        if not read:  # subqueries do
            read = [len(relations)]
            relations.append(Relation(ITERATION.name, self._iterations(), (ITERATION,)))
            block = replace(block, relations=(*block.relations, *read))
        columns = [key(r, len(relations[r].fields) - 1, ITERATION) for r in read]
        same = tuple(functions.build("eq", (columns[0], other)) for other in columns[1:])
        made = replace(
            query,
            relations=tuple(relations),
            block=Block(block.relations, (*block.predicates, *same), block.arms),
            outputs=(*query.outputs, columns[0]),
            fields=(*query.fields, ITERATION),
        )
        return map_expressions(made, lambda e: self._told(e, columns[0]))

    def _iterations(self) -> Query:
        """The iterations that have rows."""
        relation = Relation(ITERATION.name, self.over, self.over.fields)
        column = key(0, len(self.over.fields) - 1, ITERATION)
        return Query((relation,), Block((0,), ()), (), None, (column,), (ITERATION,), True)

    # Subqueries, which receive the iteration -----------------------------------------------------------------

    def _told(self, expression: Expression, iteration: Expression) -> Expression:
        """A subquery that reads the recursion, over the rows of that iteration, which is a further argument of it."""
        if not isinstance(expression, Apply) or not self.reads(expression.query):
            return expression
        argument = OuterRef(ITERATION.type, len(expression.outer), ITERATION.name, False)
        within = self._within(expression.query, argument)
        return replace(expression, args=(*expression.args, iteration), query=within)

    def _within(self, query: AnyQuery, iteration: OuterRef) -> AnyQuery:
        """A query over the rows of the iteration that the argument says."""
        if not self.reads(query):
            return query
        if isinstance(query, Recursive):
            raise NotLinearError(*_named(query))
        read = [s if isinstance(s, TableSchema) else self._within(s, iteration) for s in children(query)]
        query = with_children(query, read)
        if not isinstance(query, Query):
            return query
        own = {i for i, relation in enumerate(query.relations) if relation.source == self.rows}
        relations = (
            replace(r, source=self.over, fields=(*r.fields, ITERATION)) if i in own else r
            for i, r in enumerate(query.relations)
        )

        def filtered(block: Block) -> Block:
            columns = (key(r, len(self.rows.fields), ITERATION) for r in block.relations if r in own)
            tests = (functions.build("eq", (column, iteration)) for column in columns)
            return replace(block, predicates=(*block.predicates, *tests))

        query = map_expressions(query, lambda e: self._told(e, iteration))
        return replace(query, relations=tuple(relations), block=map_blocks(query.block, filtered))

    def reads(self, query: AnyQuery | TableSchema) -> bool:
        """Whether it reads the rows of the recursion, in FROM or in a subquery."""
        if isinstance(query, TableSchema):
            return query == self.rows
        known = self._reads.get(id(query))
        if known is None:
            found = any(self.reads(source) for source in children(query)) or any(
                self.reads(a.query) for e in own_expressions(query) for a in applies(e)
            )
            known = self._reads[id(query)] = query, found
        return known[1]


def _named(query: AnyQuery) -> tuple[str, str]:
    if isinstance(query, SetOperation):
        return f"on one side of {query.kind.upper()}", "use joins"
    if isinstance(query, TopK):
        return "below LIMIT", "limit the rows of the whole recursion"
    if isinstance(query, Recursive):
        return "in another recursion", "join the two above both"
    if isinstance(query, Windowed):
        return "below window functions", "compute them over the rows of the whole recursion"
    return "in this place", "read it in FROM, in a join"
