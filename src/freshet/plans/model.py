"""The chosen plan: what the engine runs, as immutable data.

Relations are numbered as in the bound query; the nodes of the join tree come in preorder, root first, and the edge to a
node's parent is in the node. A generalized node has a relation number of its own past the query's relations, whose
columns are its attributes: so expressions read it like any other.

A select's plan is a `QueryPlan`. The plan of what is not a select is the query's own node (`logical.query`), over
plans. All have `fields` and a `guarantee`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from freshet.logical.kinds import JoinKind, SetKind
from freshet.logical.query import (
    Above,
    AboveMany,
    BoundedSums,
    Field,
    Flattened,
    Grouping,
    Recursive,
    RecursiveRows,
    SetOperation,
    Sorted,
    TableSchema,
    Timed,
    TopK,
    UnionAll,
    Values,
    Windowed,
)
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import ColumnRef, Expression


@dataclass(frozen=True, slots=True)
class RelationPlan:
    """The source of a relation's tuples: a table, or the deltas of another plan."""

    alias: str
    source: TableSchema | AnyPlan
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The parent's value compared with the child's, by <, <=, >, >= or <>. `band`: the greatest distance of the child's
    value from the parent's, if the query's other comparisons limit it; those are checked on result rows. `second`:
    another comparison that partners must satisfy, and so on; support does not depend on these. `counted`: the child's
    tuples are counted where the tree is enumerated from above, because nothing of them is read."""

    operator: ComparisonOperator
    parent: Expression
    child: Expression
    band: int | None = None
    second: Comparison | None = None
    counted: bool = False

    @property
    def further(self) -> tuple[Comparison, ...]:
        """The second comparison, and those after it."""
        return () if self.second is None else (replace(self.second, second=None), *self.second.further)


@dataclass(frozen=True, slots=True)
class Edge:
    """How a node is joined to its parent. Keys are expressions over the parent's and the child's relation; under a
    generalized parent `parent_key` is empty: the key is the parent's tuple. `condition` reads the parent: if it is not
    true, the parent has no support on this edge."""

    kind: JoinKind
    parent_key: tuple[Expression, ...]
    child_key: tuple[Expression, ...]
    null_safe: tuple[bool, ...]
    condition: tuple[Expression, ...] = ()
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True)
class Assertion:
    """Two paths of nodes below the node it is checked on, and the column each ends in; both must be equal."""

    left: tuple[int, ...]
    left_value: Expression
    right: tuple[int, ...]
    right_value: Expression


@dataclass(frozen=True, slots=True)
class Node:
    relation: int
    attributes: tuple[str, ...]
    parent: int = -1
    edge: Edge | None = None
    generalized: bool = False
    output: bool = True
    filter: tuple[Expression, ...] = ()
    assertions: tuple[Assertion, ...] = ()


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What is guaranteed for this query, and what is not, with the reason."""

    query_class: str
    height: int
    update: str
    delay: str
    lost: tuple[str, ...] = ()
    totals: str = ""  # of aggregates over a join: by annotation or enumeration, and why


@dataclass(frozen=True, slots=True)
class QueryPlan:
    relations: tuple[RelationPlan, ...]  # the query's, then one for each generalized node
    nodes: tuple[Node, ...]
    residual: tuple[Expression, ...]  # checked on enumerated rows
    grouping: Grouping | None
    outputs: tuple[Expression, ...]
    fields: tuple[Field, ...]
    distinct: bool  # a DISTINCT operator follows
    distinct_tree: bool  # the tree itself produces each row once: weights are ignored
    guarantee: Guarantee
    attributes: tuple[tuple[str, str], ...] = field(default=())  # attribute name → what it stands for
    shares: tuple[tuple[str, int], ...] = ()  # of the grid of shards, by dimension, if given
    key: tuple[int, ...] = ()  # outputs that are the keys of groups, where each group is one joined row
    copies: tuple[ColumnRef, ...] = ()  # the number of copies that a joined row represents: the product of these

    @property
    def passes(self) -> bool:
        """Whether it reads a single other query and nothing else: then its rows need not be stored."""
        if len(self.nodes) != 1 or self.distinct_tree:
            return False
        return not isinstance(self.relations[self.nodes[0].relation].source, TableSchema)


@dataclass(frozen=True, slots=True)
class UnionAllPlan(UnionAll["AnyPlan"]):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class SetPlan(SetOperation["AnyPlan"]):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class LookedUpPlan(Above["AnyPlan"]):
    """UNION, EXCEPT or INTERSECT of two queries in which rows can be looked up: it stores no rows. `all`: whether
    copies count; otherwise both are sets."""

    SOURCES: ClassVar[Mapping[str, str]] = {"left": "left", "right": "right"}

    kind: SetKind
    left: AnyPlan
    right: AnyPlan
    fields: tuple[Field, ...]
    guarantee: Guarantee
    all: bool = False


@dataclass(frozen=True, slots=True)
class ValuesPlan(Values):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class TopPlan(TopK["AnyPlan"]):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class SortPlan(Sorted["AnyPlan"]):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class WindowPlan(Windowed["AnyPlan"]):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class BoundedSumsPlan(BoundedSums["AnyPlan"]):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class TimedPlan(Timed["AnyPlan"]):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class RecursivePlan(Recursive["AnyPlan"]):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class FlattenedPlan(Flattened["AnyPlan"]):
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class BagPlan(AboveMany["AnyPlan"]):
    """The join of sets of tuples that form a cycle, on every attribute they share: each row once. `attributes`: the
    field that each column of an input is."""

    inputs: tuple[AnyPlan, ...]
    attributes: tuple[tuple[int, ...], ...]
    width: int
    fields: tuple[Field, ...]
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class IndexedPlan(Above["AnyPlan"]):
    """A plan with indexes on its answer, each on some columns. It can only be the root."""

    SOURCES: ClassVar[Mapping[str, str]] = {"rows": "source"}

    source: AnyPlan
    indexes: tuple[tuple[int, ...], ...]
    fields: tuple[Field, ...]
    guarantee: Guarantee


AnyPlan = (
    BoundedSumsPlan | QueryPlan | TimedPlan | TopPlan | SortPlan | WindowPlan | UnionAllPlan | SetPlan | ValuesPlan
    | BagPlan | FlattenedPlan | IndexedPlan | LookedUpPlan | RecursivePlan
)  # fmt: skip


def indexed(plan: AnyPlan, indexes: Mapping[str, Sequence[int]]) -> AnyPlan:
    """The plan with these indexes on its answer; itself where there are none."""
    if not indexes:
        return plan
    return IndexedPlan(plan, tuple(tuple(columns) for columns in indexes.values()), plan.fields, plan.guarantee)


def inputs(plan: AnyPlan) -> Iterator[tuple[str, AnyPlan]]:
    """The plans a plan reads, by name."""
    if isinstance(plan, QueryPlan):
        for relation in plan.relations:
            if not isinstance(relation.source, TableSchema):
                yield relation.alias, relation.source
    else:
        yield from plan.sources().items()


def with_inputs(plan: AnyPlan, below: Sequence[AnyPlan]) -> AnyPlan:
    """A plan that is not a select's, over other plans."""
    assert not isinstance(plan, QueryPlan)
    return replace(plan, **plan.reading(below))


NO_GUARANTEE = Guarantee("", 0, "", "")


def schemas(plan: AnyPlan) -> Iterator[TableSchema]:
    """The tables a plan reads, each as often as it does."""
    if isinstance(plan, QueryPlan):
        generalized = {n.relation for n in plan.nodes if n.generalized}
        for i, relation in enumerate(plan.relations):
            source = relation.source
            if isinstance(source, TableSchema) and not isinstance(source, RecursiveRows) and i not in generalized:
                yield source
    for _, below in inputs(plan):
        yield from schemas(below)
