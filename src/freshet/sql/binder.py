"""The interface that the parts of binding share: the current select, and the draft of its block.

Each clause is bound by its own functions, which receive the binder. They see it as this abstract class; `select.py`
implements it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from sqlglot import exp

from freshet.logical.extent import check_relations
from freshet.logical.joined import Joined
from freshet.logical.query import AnyQuery, Arm, Block, RecursiveRows, Relation
from freshet.scalar.expression import Expression
from freshet.sql.definitions import Definitions
from freshet.sql.projection import Output
from freshet.sql.scalar import Aggregates, ScalarBinder, Windows
from freshet.sql.scope import Around, NameScope
from freshet.sql.source import Statement


@dataclass(slots=True)
class Draft:
    """A block under construction."""

    relations: list[int] = field(default_factory=list)
    predicates: list[Expression] = field(default_factory=list)
    arms: list[Arm] = field(default_factory=list)

    def take(self, other: Draft) -> None:
        """Adds everything in another draft, as an inner join."""
        self.relations += other.relations
        self.predicates += other.predicates
        self.arms += other.arms

    def block(self) -> Block:
        return Block(tuple(self.relations), tuple(self.predicates), tuple(self.arms))


@dataclass(slots=True)
class SelfReference:
    """The name of a recursive query inside itself: the rows of the previous iteration. Without `rows` it must not be
    read there, as `refusal` says. `read`: where it was read first."""

    rows: RecursiveRows | None
    refusal: str
    read: exp.Expr | None = None

    def source(self, statement: Statement, node: exp.Expr) -> RecursiveRows:
        if self.rows is None:
            statement.fail(self.refusal, node)
        self.read = self.read or node
        return self.rows


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query named by WITH. `around`: what its OuterRefs refer to."""

    query: AnyQuery | SelfReference
    around: Around | None


class Binder(ABC):
    """`around`: the surroundings of the subquery that this query is, or is part of. `beyond`: the enclosing scope that
    this query must not read, for error messages. `exists`: whether only the existence of a row matters."""

    def __init__(
        self,
        statement: Statement,
        catalog: Definitions,
        ctes: dict[str, CommonTable] | None = None,
        around: Around | None = None,
        beyond: NameScope | None = None,
        exists: bool = False,
    ) -> None:
        self.statement, self.catalog, self.ctes = statement, catalog, dict(ctes or {})
        self.around, self.beyond, self.exists = around, beyond, exists
        self.full: dict[int, Joined] = {}  # relations that are full joins
        self.relations: list[Relation] = []

    def add_relation(self, relation: Relation, origin: exp.Expr) -> int:
        self.relations.append(relation)
        check_relations(self.statement.extents.relations(relation.source), self.statement, origin)
        return len(self.relations) - 1

    @abstractmethod
    def query(self, node: exp.Expr, ordered: bool = False) -> AnyQuery:
        """`ordered`: whether the caller reads the rows in the written order; otherwise they are a bag."""

    @abstractmethod
    def nested(self, node: exp.Expr, beyond: NameScope | None = None) -> AnyQuery:
        """A separate query below this one: it sees the same tables and the same surroundings, but not this query's
        columns, which are `beyond`."""

    @abstractmethod
    def subquery(self, node: exp.Expr, scope: NameScope, exists: bool) -> tuple[AnyQuery, Around]:
        """A subquery in an expression of that scope, and the columns it reads from it. `exists`: whether it is the
        argument of EXISTS."""

    @abstractmethod
    def scalar(
        self, scope: NameScope, clause: str, aggregate: Aggregates | None = None, subqueries: bool = False
    ) -> ScalarBinder:
        """`subqueries`: whether they are allowed."""

    @abstractmethod
    def with_subqueries(self, scalar: ScalarBinder, scope: NameScope) -> ScalarBinder: ...

    @abstractmethod
    def equal(self, left: Expression, right: Expression, node: exp.Expr) -> Expression: ...

    @abstractmethod
    def conditions(self, node: exp.Expr, scope: NameScope, draft: Draft, clause: str) -> None: ...

    @abstractmethod
    def common_tables(self, node: exp.Expr) -> AbstractContextManager[None]:
        """The node's WITH: each name is bound once and refers to its query until the node ends."""

    @abstractmethod
    def project(
        self, node: exp.Select, scope: NameScope, aggregate: Aggregates | None = None, window: Windows | None = None
    ) -> list[Output]:
        """The select list over the relations (aggregates already as columns of the group's row)."""
