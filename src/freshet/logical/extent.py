"""The size of a query with every name expanded, and the limits on it.

Views, common tables, subqueries and aliases are expanded wherever they are read. So a line that reads the previous line
twice doubles the work of planning and maintaining, and a page of such lines would never finish. Parts of a query are
shared in memory, so each is measured once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from freshet.logical.apply import applies, own_expressions
from freshet.logical.query import AnyQuery, Query, TableSchema, children
from freshet.scalar.expression import Call, Expression, Literal

if TYPE_CHECKING:
    from sqlglot import exp

MOST_RELATIONS = 6_000  # of a query, with all that it reads
MOST_PARTS = 50_000  # calls and columns of an expression, and of a select list
MOST_SETS = 1_024  # of keys that one GROUP BY groups by
MOST_MERGED = 64  # relations of a join into which nested selects are merged; in larger joins they remain separate
_MOST_GROWN = 5_000  # parts that expressions may have after substitution of columns


def _read(query: AnyQuery) -> Iterable[AnyQuery | TableSchema]:
    """The sources of a query, in FROM and in subqueries, except relations that binding has dropped."""
    if not isinstance(query, Query):
        yield from children(query)
        return
    yield from (query.relations[r].source for r in query.block.within())
    yield from (a.query for e in own_expressions(query) for a in applies(e))


class Extents:
    """The sizes of one statement's queries and expressions, by identity: what is measured is kept alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, int]] = {}

    def relations(self, query: AnyQuery | TableSchema) -> int:
        """Tables that a query reads, and selects without tables."""
        if isinstance(query, TableSchema):
            return 1
        known = self._known.get(id(query))
        if known is None:
            known = self._known[id(query)] = query, max(1, sum(map(self.relations, _read(query))))
        return known[1]

    def parts(self, expression: Expression) -> int:
        if not isinstance(expression, Call):
            return 1
        known = self._known.get(id(expression))
        if known is None:
            inside = sum(self.parts(a) for a in expression.args if not isinstance(a, Literal))
            known = self._known[id(expression)] = expression, 1 + inside
        return known[1]


class Written(Protocol):
    """The statement in which a query was written: the position of errors, and the sizes of its parts."""

    @property
    def extents(self) -> Extents: ...

    def refuse(self, what: str, instead: str, at: exp.Expr | None) -> NoReturn: ...


def may_replace(columns: Iterable[int], outputs: Sequence[Expression], extents: Extents) -> bool:
    """Whether the outputs of a select may be substituted for its columns, each as often as it is read."""
    sizes = [extents.parts(o) for o in outputs]
    return max(sizes, default=1) == 1 or sum(sizes[c] for c in columns) <= _MOST_GROWN


def check_relations(count: int, statement: Written, node: exp.Expr | None) -> None:
    if count > MOST_RELATIONS:
        what = f"a query of {count:,} relations, with what it reads written out,"
        statement.refuse(what, f"{MOST_RELATIONS:,} is the most: store a part of it in a table", node)


def check_parts(count: int, statement: Written, node: exp.Expr | None) -> None:
    if count > MOST_PARTS:
        what = f"an expression of {count:,} parts, with the names it reads written out,"
        statement.refuse(what, f"{MOST_PARTS:,} is the most: store a part of it in a table", node)


def check_sets(count: int, statement: Written, node: exp.Expr | None) -> None:
    if count > MOST_SETS:
        what = f"GROUP BY of {count:,} grouping sets"
        statement.refuse(what, f"{MOST_SETS:,} is the most: list those you need in GROUPING SETS", node)
