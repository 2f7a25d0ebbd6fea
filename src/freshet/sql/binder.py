"""What the parts of binding share: the select at hand, the draft of its block, and where subqueries hang.

Each clause is bound by functions of its own, which are given the binder. They see it as this class; `select.py` makes
it whole out of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from freshet.logical.extent import check_relations
from freshet.logical.joined import Joined
from freshet.logical.query import AnyQuery, Arm, Block, Field, Relation
from freshet.logical.references import BesideRef, OuterRef
from freshet.logical.rewrite.blocks import NAMELESS
from freshet.scalar.expression import ColumnRef, Expression
from freshet.sql.definitions import Definitions
from freshet.sql.outside import Learnt, Name
from freshet.sql.projection import Output
from freshet.sql.scalar import Aggregates, ScalarBinder, Windows
from freshet.sql.scope import Scope
from freshet.sql.source import Statement


@dataclass(slots=True)
class Draft:
    """A block being filled."""

    relations: list[int] = field(default_factory=list)
    predicates: list[Expression] = field(default_factory=list)
    arms: list[Arm] = field(default_factory=list)
    values: dict[str, Expression] = field(default_factory=dict)  # subqueries in it, by their text

    def take(self, other: Draft) -> None:
        """Everything of another draft, joined."""
        self.relations += other.relations
        self.predicates += other.predicates
        self.arms += other.arms

    def block(self) -> Block:
        return Block(tuple(self.relations), tuple(self.predicates), tuple(self.arms))


class DerivedTable(Protocol):
    """A FROM subquery, bound: its columns, of which the first are shown, and what the rest must fulfil."""

    query: AnyQuery

    @property
    def shown(self) -> int: ...

    def conditions(self, number: int) -> list[Expression]:
        """Of the relation with that number."""


class Binder(ABC):
    """`outer`: where the query stands, if it is a subquery whose names may be of the query around it; `asks`: the
    columns of enclosing queries to lend it. `learnt` is shared by all binders of a statement."""

    def __init__(
        self,
        statement: Statement,
        catalog: Definitions,
        ctes: dict[str, AnyQuery] | None = None,
        outer: Place | None = None,
        asks: Sequence[Name] = (),
        learnt: Learnt | None = None,
    ) -> None:
        self.statement, self.catalog, self.ctes = statement, catalog, dict(ctes or {})
        self.outer, self.asks, self.learnt = outer, asks, learnt or Learnt()
        self.lent: int | None = None  # the relation of the values lent to it
        self.full: dict[int, Joined] = {}  # relations that are full joins
        self.beyond: Scope | None = None  # the columns around it, which it does not read
        self.relations: list[Relation] = []

    def add_relation(self, relation: Relation, origin: exp.Expr) -> int:
        self.relations.append(relation)
        check_relations(self.statement.extents.relations(relation.source), self.statement, origin)
        return len(self.relations) - 1

    @abstractmethod
    def query(self, node: exp.Expr, ordered: bool = False) -> AnyQuery:
        """`ordered`: whoever asks reads the rows in the order that is written; else they are a bag."""

    @abstractmethod
    def nested(self, node: exp.Expr, around: Scope | None = None) -> AnyQuery:
        """A query of its own below this one: it sees the same tables, not this one's columns. `around`: those, where
        they are known, for errors."""

    @abstractmethod
    def inner(self, place: Place, asks: Sequence[Name]) -> Binder:
        """The binder of a subquery that hangs there and is lent those columns."""

    @abstractmethod
    def derived(self, node: exp.Subquery, scope: Scope) -> DerivedTable:
        """A FROM subquery."""

    @abstractmethod
    def scalar(
        self, scope: Scope, clause: str, aggregate: Aggregates | None = None, draft: Draft | None = None
    ) -> ScalarBinder:
        """`draft`: where subqueries hang; none may stand there otherwise."""

    @abstractmethod
    def with_subqueries(self, scalar: ScalarBinder, place: Place) -> ScalarBinder: ...

    @abstractmethod
    def equal(self, left: Expression, right: Expression, node: exp.Expr) -> Expression: ...

    @abstractmethod
    def conditions(self, node: exp.Expr, scope: Scope, draft: Draft, clause: str) -> None: ...

    @abstractmethod
    def common_tables(self, node: exp.Expr, around: Scope | None = None) -> AbstractContextManager[None]:
        """The node's WITH: each name is bound once and stands for its query until the node ends. `around`: the columns
        around the node, which its queries do not read, for errors."""

    @abstractmethod
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


@dataclass(slots=True)
class Place:
    """Where subqueries of one clause hang: a draft, and how an expression of the select is read there. Above a grouping
    the relations are numbered apart (`beside`), and `below` are the values of subqueries that GROUP BY reads."""

    binder: Binder
    scope: Scope
    draft: Draft
    read: Callable[[Expression, exp.Expr], Expression] = lambda expression, node: expression
    beside: list[Relation] | None = None
    below: dict[str, Expression] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Expression]:
        """Values of subqueries that hang here, by their text."""
        return self.draft.values

    def add(self, query: AnyQuery, node: exp.Expr) -> int:
        known = self.binder.relations if self.beside is None else self.beside
        others = sum(r.alias.startswith(NAMELESS) for r in known)
        relation = Relation(f"{NAMELESS} {others + 1}" if others else NAMELESS, query, query.fields)
        if self.beside is None:
            return self.binder.add_relation(relation, node)
        self.beside.append(relation)
        return len(self.beside) - 1

    def column(self, number: int, position: int, field: Field) -> ColumnRef | BesideRef:
        """A column of a relation added here."""
        made = ColumnRef if self.beside is None else BesideRef
        return made(field.type, number, position, field.name, field.nullable)


class Unasked(Exception):  # noqa: N818 - no error: it asks for something
    """A query reads columns of enclosing queries where only its own can be read: it must be bound again, lent them."""

    def __init__(self, binder: Binder, columns: Iterable[OuterRef]) -> None:
        self.binder, self.columns = binder, list(columns)
