"""A subquery inside an expression, as binding leaves it: its query, and the values it reads from the current outer row.

The query is self-contained. It reads values of enclosing queries through `OuterRef`s, each of which names an argument
of the nearest enclosing `Apply` by position: so an `Apply` is a function of its arguments, wherever it is moved.
Decorrelation (logical/rewrite/decorrelate) replaces it with a join.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NoReturn

from freshet.errors import UnsupportedError
from freshet.logical.query import AnyQuery, Block, Query, TableSchema, children
from freshet.logical.references import OuterRef
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Compound, Expression, Named, walk


class ApplyKind(Enum):
    EXISTS = "EXISTS"
    ANY = "ANY"  # the comparison holds for some row; also IN
    ALL = "ALL"  # the comparison holds for every row
    SCALAR = "SCALAR"  # the value of its only row
    LATERAL = "LATERAL"  # its rows are those of a relation, for each row of the block


@dataclass(frozen=True, slots=True)
class Apply(Named, Compound):
    """`args`: the values that ANY and ALL compare, `compared` of them, then the values of the query's OuterRefs. Two
    are equal if they are written the same way in the same select, which `select` identifies. `spot`: the statement's
    text, line and column, for errors."""

    kind: ApplyKind
    query: AnyQuery = field(compare=False, repr=False)
    args: tuple[Expression, ...]
    name: str
    nullable: bool
    comparison: ComparisonOperator = ComparisonOperator.EQUAL  # of ANY and ALL
    compared: int = 0
    select: object = field(default=None, repr=False)
    spot: tuple[str, int, int] | None = field(default=None, compare=False)
    relation: int | None = None  # that of LATERAL, which has no rows until the subquery has become a join

    def of(self, args: tuple[Expression, ...]) -> Apply:
        return replace(self, args=args)

    @property
    def values(self) -> tuple[Expression, ...]:
        return self.args[: self.compared]

    @property
    def outer(self) -> tuple[Expression, ...]:
        """The value of each OuterRef of the query, by position."""
        return self.args[self.compared :]

    def refuse(self, what: str, instead: str) -> NoReturn:
        raise UnsupportedError(f"{what} is not supported; {instead}", *(self.spot or ()))


def applies(expression: Expression) -> list[Apply]:
    """The subqueries in an expression, without those nested inside them."""
    found, left = list[Apply](), [expression]
    while left:
        e = left.pop()
        if isinstance(e, Compound):
            left += e.args
            if isinstance(e, Apply):
                found.append(e)
    return found


def has_apply(expression: Expression) -> bool:
    return isinstance(expression, Compound) and bool(applies(expression))


def block_expressions(block: Block) -> Iterator[Expression]:
    yield from block.predicates
    for arm in block.arms:
        yield from block_expressions(arm.block)


def own_expressions(query: AnyQuery) -> Iterator[Expression]:
    """The expressions of a query, without those of the queries that it reads."""
    if not isinstance(query, Query):
        return
    yield from block_expressions(query.block)
    yield from query.where
    yield from query.outputs
    if query.grouping is not None:
        yield from query.grouping.keys
        for call in query.grouping.aggregates:
            yield from call.reads
        if query.grouping.having is not None:
            yield query.grouping.having


def sources(query: AnyQuery) -> Iterator[AnyQuery]:
    """The queries that a query reads, without those that binding has dropped."""
    if isinstance(query, Query):
        read = (query.relations[number].source for number in query.block.within())
        yield from (source for source in read if not isinstance(source, TableSchema))
    else:
        yield from (source for source in children(query) if not isinstance(source, TableSchema))


def outer_of(expressions: Iterable[Expression]) -> list[OuterRef]:
    return list(dict.fromkeys(e for x in expressions for e in walk(x) if isinstance(e, OuterRef)))


def outer_columns(query: AnyQuery) -> list[OuterRef]:
    """The arguments that a query and the queries it reads take from the enclosing Apply, each once."""
    found: dict[OuterRef, None] = {}
    left, seen = [query], set[int]()
    while left:
        query = left.pop()
        if id(query) not in seen:
            seen.add(id(query))
            found |= dict.fromkeys(outer_of(own_expressions(query)))
            left += sources(query)
    return list(found)
