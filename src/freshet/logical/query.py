"""Queries as data: what the binder makes, the rewrites change and the planner takes, each a stage over
the whole tree.

A SELECT is a `Block` of relations joined by inner joins, with `Arm`s attached to it: LEFT JOIN, EXISTS / IN (semi) and
NOT EXISTS (anti) are each a block of their own whose predicates may also read the block above. Relations are numbered
across the whole select, arms included, so a ColumnRef needs no path. This is the shape of a join tree's edges.

A query is a SELECT, or one of a few other nodes: a set operation, the first rows in some order, window functions,
constant rows. Each has `fields`, its columns, so a reader need not know which it is. Those other nodes are generic over
what they read: queries here, plans in `plans.model`, where a node's plan is the same node with a guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from freshet.logical.kinds import JoinKind, SetKind
from freshet.scalar.clock import Moment, Step, StepKind
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import AggregateCall, ColumnRef, Expression, GroupRef, SortKey
from freshet.scalar.types import TIME_RANGE, TIMESTAMP, Type
from freshet.windows.call import WindowCall

if TYPE_CHECKING:
    from typing_extensions import TypeIs

S = TypeVar("S")  # the input of a node: a query or a plan


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of rows: until the clock is `size` microseconds past the time in that column."""

    column: int
    size: int

    @property
    def moment(self) -> Moment:
        return Moment(self.column, False, (Step(StepKind.PLUS, -self.size),))


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late rows may come: with a row of some time in that column, rows more than `size` microseconds before it are
    expected no more."""

    column: int
    size: int

    @property
    def time(self) -> Moment:
        """The time of a row."""
        return Moment(self.column, False, ())


@dataclass(frozen=True, slots=True)
class TableSchema:
    name: str
    fields: tuple[Field, ...]
    primary_key: tuple[int, ...] = ()  # positions of the key columns
    foreign_keys: tuple[ForeignKey, ...] = ()  # hints, not enforced
    retention: Retention | None = None
    altered: Altered | None = field(default=None, compare=False)
    lateness: Lateness | None = None

    def position(self, column: str) -> int | None:
        wanted = column.lower()
        return next((i for i, f in enumerate(self.fields) if f.name.lower() == wanted), None)

    def positions(self) -> dict[str, int]:
        """Those of all columns, by their names in lower case: for loops over columns."""
        return {f.name.lower(): i for i, f in enumerate(self.fields)}


#: In place of the former position of a column that ALTER TABLE has added.
NEW_COLUMN = -1


@dataclass(frozen=True, slots=True)
class Altered:
    """The origin of a table altered by ALTER TABLE: the former number of its rows in the arena, and the former position
    of each column, or NEW_COLUMN."""

    number: int
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForeignKey:
    columns: tuple[int, ...]
    table: str
    to_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecursiveRows(TableSchema):
    """The rows that the step of a recursive query reads: those of one iteration. It is not a table of the database."""


#: The table that holds the time of the clock, once set. Its name requires quotes in SQL.
CLOCK = TableSchema("the clock", (Field("now", TIMESTAMP, False),), (0,))


@dataclass(frozen=True, slots=True)
class Watermark(TableSchema):
    """The table that holds the watermark of a table with `lateness`, once a row with a time has come: the greatest time
    of all rows that ever came, minus the lateness."""


def watermark_of(schema: TableSchema) -> Watermark:
    return Watermark(f"the watermark of {schema.name.lower()}", CLOCK.fields, CLOCK.primary_key)


def with_watermark(schema: TableSchema) -> list[TableSchema]:
    """A table, and the one of its watermark if it has lateness."""
    return [schema] if schema.lateness is None else [schema, watermark_of(schema)]


def is_internal(schema: TableSchema) -> bool:
    """Whether a table holds a time that Freshet keeps, and is not one of the catalog."""
    return schema == CLOCK or isinstance(schema, Watermark)


@dataclass(frozen=True, slots=True)
class Relation:
    """One entry of FROM: a base table, or a query nested in FROM (also an inlined view or CTE)."""

    alias: str
    source: TableSchema | AnyQuery
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Block:
    relations: tuple[int, ...]
    predicates: tuple[Expression, ...]  # conjuncts, flattened
    arms: tuple[Arm, ...] = ()

    def within(self) -> Iterator[int]:
        """The relations of the block and of all arms below it, as the tree is read."""
        yield from self.relations
        for arm in self.arms:
            yield from arm.block.within()


@dataclass(frozen=True, slots=True)
class Arm:
    kind: JoinKind  # LEFT, SEMI or ANTI
    block: Block


@dataclass(frozen=True, slots=True)
class Grouping:
    """GROUP BY: after it, outputs and `having` read the group's row (`GroupRef`): the keys, then the aggregates."""

    keys: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    having: Expression | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A bound SELECT. `where` holds the conjuncts that must see rows after the arms (for example on a LEFT JOIN's
    columns); everything that may be checked inside the block already is in `block.predicates`. `copies`: columns whose
    product is the number of copies that each row stands for; only the planner creates such queries."""

    relations: tuple[Relation, ...]
    block: Block
    where: tuple[Expression, ...]
    grouping: Grouping | None
    outputs: tuple[Expression, ...]
    fields: tuple[Field, ...]  # name, type and nullability of each output
    distinct: bool = False
    copies: tuple[ColumnRef, ...] = ()


class Above(Generic[S]):
    """A node that is not a select: `SOURCES` names the fields that hold the queries it reads."""

    __slots__ = ()
    SOURCES: ClassVar[Mapping[str, str]] = {}

    def sources(self) -> dict[str, S]:
        """The queries it reads, by name."""
        return {name: getattr(self, field) for name, field in self.SOURCES.items()}

    def reading(self, sources: Sequence[object]) -> dict[str, Any]:
        """The values of its fields that make it read these instead."""
        return dict(zip(self.SOURCES.values(), sources, strict=True))


class AboveMany(Above[S]):
    """Reads any number of inputs, which are numbered from 1."""

    __slots__ = ()
    inputs: tuple[S, ...]

    def sources(self) -> dict[str, S]:
        return {str(i): source for i, source in enumerate(self.inputs, 1)}

    def reading(self, sources: Sequence[object]) -> dict[str, Any]:
        return {"inputs": tuple(sources)}


@dataclass(frozen=True, slots=True)
class UnionAll(AboveMany[S]):
    """The rows of all inputs, whose columns have the same types."""

    inputs: tuple[S, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class SetOperation(Above[S]):
    """Two queries compared row by row, NULL equal to NULL. With `all` copies count, otherwise a row is there once or
    not at all. UNION ALL is `UnionAll`."""

    SOURCES: ClassVar[Mapping[str, str]] = {"left": "left", "right": "right"}

    kind: SetKind
    all: bool
    left: S
    right: S
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Values(Above[Any]):
    """Constant rows: expressions without references, already of the fields' types."""

    rows: tuple[tuple[Expression, ...], ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class TopK(Above[S]):
    """The rows of a query at the places from `offset` on, `limit` many (None: all the rest), in each partition. Rows
    are in the order of `order`; where it cannot tell them apart, in that of the shown columns from left to right,
    upwards, NULLs first. With `ties`, rows that `order` cannot tell from the last one taken are taken too. Shown are
    the first columns of the query, as many as there are fields."""

    SOURCES: ClassVar[Mapping[str, str]] = {"rows": "source"}

    source: S
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    offset: int
    limit: int | None
    ties: bool
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Sorted(Above[S]):
    """The rows of a query, read in an order. It can only be the root: a query that reads another reads a bag. It
    outputs the first columns of the query, as many as there are fields."""

    SOURCES: ClassVar[Mapping[str, str]] = {"rows": "source"}

    source: S
    order: tuple[SortKey, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Windowed(Above[S]):
    """The rows of a query, each with the values of window functions over its partition as further columns. Where
    `order` cannot tell rows apart they are in that of all columns from left to right. With `first`, only that many
    rows of each partition are wanted, and with `ties` those that tie with the last of them."""

    SOURCES: ClassVar[Mapping[str, str]] = {"rows": "source"}

    source: S
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]
    fields: tuple[Field, ...]
    first: int | None
    ties: bool


@dataclass(frozen=True, slots=True)
class BoundedSums(Above[S]):
    """For each key that has a bound, sums over the rows whose value compares with it: the keys, how many rows do, and
    the sum of each measure, NULL where none is known. `rows` has the keys, the value and the measures, `bounds` the
    keys and the bound, one at most for each; neither keys nor values are NULL. The value stands left of the operator.
    A key without such rows is not in the answer."""

    SOURCES: ClassVar[Mapping[str, str]] = {"rows": "rows", "bounds": "bounds"}

    rows: S
    bounds: S
    keys: int
    operator: ComparisonOperator  # one that compares by order
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Timed(Above[S]):
    """The rows of a query as time passes: a row is in the answer from the last moment in `since` on, until the first
    moment in `until`. The output is the first columns of the query and then, for each of `flags`, whether its moment
    has passed; NULL if the row has none. A row with NULL in `since` or `until` is never in the answer. `clock`: the
    current time, as one row; without a row it is `begins`. `final`: the tables whose watermark is that time, where it
    is not the clock's; then rows do not change once they are in the answer."""

    SOURCES: ClassVar[Mapping[str, str]] = {"rows": "source", "clock": "clock"}

    source: S
    clock: S
    since: tuple[Moment, ...]
    until: tuple[Moment, ...]
    flags: tuple[Moment, ...]
    fields: tuple[Field, ...]
    final: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def begins(self) -> int:
        """The time before the first one is known."""
        return TIME_RANGE["TIMESTAMP"][0] if self.final else 0

    @property
    def in_order_of_time(self) -> bool:
        """Whether rows that are inserted in the order of one moment leave in that order, and do nothing else."""
        return len(self.until) == 1 and not self.since and not self.flags


@dataclass(frozen=True, slots=True)
class Recursive(Above[S]):
    """A query that reads itself, by the name `name`. Its rows are those of all iterations: the rows of iteration 0 are
    those of `anchor`, and the rows of an iteration are what `step` makes of those of the one before. With `distinct`,
    an iteration has only rows that none before it has, each once. The last column of `rows` is the number of the
    iteration that a row belongs to, which is also the last column of `step`, so that one step makes the rows of all
    iterations from those of all iterations. The iteration of number `levels` must not have any rows."""

    SOURCES: ClassVar[Mapping[str, str]] = {"anchor": "anchor", "step": "step"}

    name: str
    anchor: S
    step: S
    rows: RecursiveRows
    distinct: bool
    levels: int
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Flattened(Above[S]):
    """The rows of a query, each once for every element of the array or map in its column `list`. Shown are the other
    columns, then with `numbered` the element's place from 0 on, then the element: key and value of a map, and with
    `inline` the fields of a struct. With `outer` a row without elements is there once, with NULL for these."""

    SOURCES: ClassVar[Mapping[str, str]] = {"rows": "source"}

    source: S
    list: int
    numbered: bool
    inline: bool
    outer: bool
    fields: tuple[Field, ...]


AnyQuery = (
    Query | TopK["AnyQuery"] | Sorted["AnyQuery"] | Windowed["AnyQuery"] | BoundedSums["AnyQuery"]
    | Timed["AnyQuery"] | Recursive["AnyQuery"] | Flattened["AnyQuery"] | UnionAll["AnyQuery"]
    | SetOperation["AnyQuery"] | Values
)  # fmt: skip


def is_query(part: object) -> TypeIs[AnyQuery]:
    """Whether it is a query, not a statement or a part of a query."""
    return isinstance(part, (Query, Above))


def children(query: AnyQuery) -> Iterator[AnyQuery | TableSchema]:
    """The sources of a query, each as often as it is read."""
    if isinstance(query, Query):
        yield from (relation.source for relation in query.relations)
    else:
        yield from query.sources().values()


def with_children(query: AnyQuery, read: Sequence[AnyQuery | TableSchema]) -> AnyQuery:
    """The same query over other sources, as many as it has."""
    if isinstance(query, Query):
        pairs = zip(query.relations, read, strict=True)
        return replace(query, relations=tuple(replace(relation, source=source) for relation, source in pairs))
    return replace(query, **query.reading([source for source in read if not isinstance(source, TableSchema)]))


def key(relation: int, position: int, field: Field) -> ColumnRef:
    return ColumnRef(field.type, relation, position, field.name, field.nullable)


def group_key(position: int, field: Field) -> GroupRef:
    return GroupRef(field.type, position, field.name, field.nullable)
