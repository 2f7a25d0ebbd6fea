"""The interface of every maintained query: apply changes of tables, emit the delta, return the answer.

A change of a table is passed to the queries that read tables; at the end of a transaction each query finishes the ones
below it and computes its own delta from theirs. Every operator registers for the kind of plan it runs, so operators can
be stacked in any way.

An operator receives its outlet when it is created. The outlet of a query that another one reads is always open; that of
a top-level query is opened and closed by the code that runs transactions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from freshet.engine.table import Table
from freshet.engine.work import Work, total
from freshet.plans.content import Content, content_of
from freshet.plans.model import AnyPlan, schemas
from freshet.scalar.column import Column
from freshet.scalar.lanes import pack, width, written_rows
from freshet.state.arena import Growable, Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import Rows
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots

#: Rows loaded at a time when a view is created over tables that already have rows.
LOAD = 65_536

STEPS = "steps"  # the array in which an operator counts its work


@dataclass(frozen=True, slots=True)
class StoredLanes:
    """Rows in their stored form, which for few rows costs far less than columns. `rows` returns each row as lists of
    lanes; `cells` has the position of each column in them: list, first lane, null lane, bit."""

    rows: Callable[[Int64s], list[tuple[list[int], ...]]]
    cells: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds rows of an answer by some of its columns, without enumerating it. `find` takes the values of these columns,
    in this order, as one row of lanes and returns the rows that have them, NULL equal to NULL; `unique`: at most one
    row."""

    columns: tuple[int, ...]
    unique: bool
    find: Callable[[Int64s], list[Column]]
    stored: StoredLanes | None = None


class Outlet:
    """Whether the deltas of an operator are needed. While the outlet is closed, the operator need not compute them: it
    changes its state, and `finish` may return an incomplete delta. Native steps read the flag at `address`."""

    __slots__ = ("_flag", "address")

    def __init__(self, open: bool = True) -> None:
        self._flag = np.full(1, open, np.int64)
        self.address = self._flag.ctypes.data

    @property
    def open(self) -> bool:
        return bool(self._flag[0])

    @open.setter
    def open(self, open: bool) -> None:
        self._flag[0] = open


#: For operators whose deltas are always needed, because another operator's state is built from them.
ALWAYS = Outlet()
#: For operators that are loaded.
NEVER = Outlet(False)


class Maintained(ABC):
    """The state of one query and its deltas. `below`: the queries it reads, each once; `reads`: the same by name, where
    a query may occur several times."""

    below: Sequence[Maintained] = ()
    reads: Sequence[Maintained] = ()
    kinds: ClassVar[dict[type, Callable[..., Maintained]]] = {}

    def __init__(self, scope: Scope, plan: AnyPlan, pool: StringPool) -> None:
        self.scope = scope
        self.plan = plan
        self.pool = pool
        self.types = [f.type for f in plan.fields]
        self.width = width(self.types)
        self.steps = scope.array(STEPS, np.int64)  # see `work`
        self.has_text = any(t.pooled for t in self.types)
        fields = [pa.field(f.name, f.type.to_arrow(), f.nullable) for f in plan.fields]
        self.delta_schema = pa.schema([*fields, pa.field("_weight", pa.int64(), False)])
        self.written = written_rows(self.types, self.delta_schema)
        self.no_delta = pa.Table.from_batches([], self.delta_schema)

    # Transactions ---------------------------------------------------------------------------------------------

    @property
    def relays(self) -> bool:
        """Whether it only passes changes of tables on to the queries below."""
        return True

    def stored(self, steps: Growable) -> Table | None:
        """The table of the rows of the answer, if it has one that changes with the stored tables. Rows that change in
        it are counted in `steps`, those of the operator that reads it."""
        return None

    def remove(self, table: Table, slots: Slots) -> None:
        """Tuples that are about to be removed from a table, which still contains them."""
        for query in self.below:
            query.remove(table, slots)

    def insert(self, table: Table, slots: Slots) -> None:
        """Tuples that were added to a table."""
        for query in self.below:
            query.insert(table, slots)

    def reweigh(self, table: Table, slots: Slots, before: Int64s) -> None:
        """Tuples of a bag whose weights have changed from `before`."""
        for query in self.below:
            query.reweigh(table, slots, before)

    @abstractmethod
    def finish(self) -> Rows:
        """Ends a transaction and returns the delta of the answer, in which equal rows are added up."""

    # Answers --------------------------------------------------------------------------------------------------

    @abstractmethod
    def batches(self, rows: int) -> Iterator[list[Column]]:
        """The whole answer in batches of at most `rows` rows, in the order of the query if it has one."""

    def unordered(self, rows: int) -> Iterator[list[Column]]:
        """The same in any order, in memory independent of the size of the answer."""
        return self.batches(rows)

    @abstractmethod
    def count(self) -> int:
        """The number of rows in the answer."""

    def finders(self) -> Sequence[Finder]:
        """The ways to find rows of the answer by their values."""
        return ()

    def copies(self, columns: list[Column], rows: int) -> Int64s:
        """For each of the rows, how many copies of it are in the answer. Supported only by plans in which rows can be
        looked up."""
        raise NotImplementedError

    def among(self, keys: list[Column], rows: int) -> tuple[Slots, list[Column]]:
        """Which of the rows have the keys of a group in the answer, and the rows of these groups. Supported only by
        plans that show all keys of their groups."""
        raise NotImplementedError

    def weighted(self, rows: int) -> Iterator[tuple[list[Column], Int64s]]:
        """The answer of such a plan: each row once, with its number of copies."""
        for columns in self.batches(rows):
            yield columns, np.ones(len(columns[0]), np.int64)

    @property
    def unindexed(self) -> Maintained:
        """The query itself, without its indexes."""
        return self

    def packed(self) -> Iterator[Rows]:
        """The whole answer as rows of lanes."""
        for columns in self.unordered(LOAD):
            n = len(columns[0])
            yield Rows(pack(columns, self.pool, n), np.ones(n, np.int64))

    # Loading and closing --------------------------------------------------------------------------------------

    def load(self, tables: Sequence[Table]) -> None:
        """Loads the rows that the tables already contain."""
        for query in self.below:
            query.load(tables)

    def close(self) -> None:
        for query in self.below:
            query.close()

    def string_marks(self, marked: Bools) -> None:
        """Marks the texts referred to here, so that the pool keeps them."""
        for query in self.below:
            query.string_marks(marked)

    def statistics(self) -> list[tuple[int, int]]:
        """The number of tuples and of alive tuples for each node of its join tree."""
        return []

    def work(self, counted: set[int] | None = None) -> Work:
        """Steps taken since the view was created, including those of the queries below. `counted`: the shared queries
        among those that are counted already."""
        counted = set() if counted is None else counted
        return total([self.own_work(), *(query.work(counted) for query in self.below)])

    def own_work(self) -> Work:
        """The same without the queries below."""
        return Work.kept(self.steps.data)


def keeps(plan: type) -> Callable[[type[Maintained]], type[Maintained]]:
    """Registers the operator that runs a kind of plan."""

    def register(operator: type[Maintained]) -> type[Maintained]:
        Maintained.kinds[plan] = operator
        return operator

    return register


class SharedQuery(Protocol):
    """A query that is maintained once for all operators that read it."""

    def reader(self, scope: Scope, plan: AnyPlan) -> Maintained: ...


class Tables(dict[str, Table]):
    """Tables by name, and the queries over them that are shared."""

    def __init__(self) -> None:
        super().__init__()
        self.shared: dict[PlanOver, SharedQuery] = {}

    def plan_over(self, plan: AnyPlan) -> PlanOver:
        scopes = {(schema.name.lower(), self[schema.name.lower()].scope.prefix) for schema in schemas(plan)}
        return content_of(plan), frozenset(scopes)


#: What a plan computes, and the tables that it reads by the names in it.
PlanOver = tuple[Content, frozenset[tuple[str, str]]]


def maintain(
    scope: Scope, plan: AnyPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet = ALWAYS
) -> Maintained:
    """Creates the operator that runs a plan, and the operators below it; one that reads a shared query instead, if the
    plan is that of one."""
    if isinstance(tables, Tables) and tables.shared:
        shared = tables.shared.get(tables.plan_over(plan))
        if shared is not None:
            return shared.reader(scope, plan)
    return Maintained.kinds[type(plan)](scope, plan, tables, pool, outlet)
