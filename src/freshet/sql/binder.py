"""What the parts of binding share: the select at hand, and the draft of its block.

Each clause is bound by functions of its own, which are given the binder. They see it as this class; `select.py` makes
it whole out of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from sqlglot import exp

from freshet.logical.extent import check_relations
from freshet.logical.joined import Joined
from freshet.logical.query import AnyQuery, Arm, Block, Relation
from freshet.scalar.expression import Expression
from freshet.sql.definitions import Definitions
from freshet.sql.projection import Output
from freshet.sql.scalar import Aggregates, ScalarBinder, Windows
from freshet.sql.scope import Around, NameScope
from freshet.sql.source import Statement


@dataclass(slots=True)
class Draft:
    """A block being filled."""

    relations: list[int] = field(default_factory=list)
    predicates: list[Expression] = field(default_factory=list)
    arms: list[Arm] = field(default_factory=list)

    def take(self, other: Draft) -> None:
        """Everything of another draft, joined."""
        self.relations += other.relations
        self.predicates += other.predicates
        self.arms += other.arms

    def block(self) -> Block:
        return Block(tuple(self.relations), tuple(self.predicates), tuple(self.arms))


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query that WITH names. `around`: what its OuterRefs are of."""

    query: AnyQuery
    around: Around | None


class Binder(ABC):
    """`around`: what is around the subquery that the query is, or stands in. `beyond`: the scope around the query of
    which it reads nothing, for errors. `exists`: whether all that is asked is if the query has a row."""

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
        """`ordered`: whoever asks reads the rows in the order that is written; else they are a bag."""

    @abstractmethod
    def nested(self, node: exp.Expr, beyond: NameScope | None = None) -> AnyQuery:
        """A query of its own below this one: it sees the same tables, and what is around this one, not this one's
        columns, which are `beyond`."""

    @abstractmethod
    def subquery(self, node: exp.Expr, scope: NameScope, exists: bool) -> tuple[AnyQuery, Around]:
        """A subquery in an expression of that scope, with what it reads of it. `exists`: whether EXISTS asks."""

    @abstractmethod
    def scalar(
        self, scope: NameScope, clause: str, aggregate: Aggregates | None = None, subqueries: bool = False
    ) -> ScalarBinder:
        """`subqueries`: whether there may be some."""

    @abstractmethod
    def with_subqueries(self, scalar: ScalarBinder, scope: NameScope) -> ScalarBinder: ...

    @abstractmethod
    def equal(self, left: Expression, right: Expression, node: exp.Expr) -> Expression: ...

    @abstractmethod
    def conditions(self, node: exp.Expr, scope: NameScope, draft: Draft, clause: str) -> None: ...

    @abstractmethod
    def common_tables(self, node: exp.Expr) -> AbstractContextManager[None]:
        """The node's WITH: each name is bound once and stands for its query until the node ends."""

    @abstractmethod
    def project(
        self, node: exp.Select, scope: NameScope, aggregate: Aggregates | None = None, window: Windows | None = None
    ) -> list[Output]:
        """The select list over the relations (aggregates already as columns of the group's row)."""
