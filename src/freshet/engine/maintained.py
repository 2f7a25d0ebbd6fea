"""What every query kept fresh can do, whatever it is: take in changes of tables, emit its delta, give its answer.

A change of a table reaches the queries that read tables; at the end of a transaction each query finishes the ones
below it and makes its own delta of theirs. Every operator registers for the kind of plan it runs, so that one can
stand on any other.

An operator is given its outlet when it is made. A query that another one reads has an outlet that is always open; that
of a query on top is opened and closed by the code that runs the transactions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from freshet.engine.table import Table
from freshet.engine.work import Work, total
from freshet.plans.model import AnyPlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import pack, width
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import Rows
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots

#: Rows taken in at a time when a view is made over tables that already have rows.
LOAD = 65_536


@dataclass(frozen=True, slots=True)
class StoredLanes:
    """The same rows as they are stored, where every column is: for few rows that costs far less than columns. `rows`
    gives each row as lists of lanes; `cells` says where in them each column is: list, first lane, null lane, bit."""

    rows: Callable[[Int64s], list[tuple[list[int], ...]]]
    cells: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Finder:
    """Rows of an answer by some of its columns, without enumerating it. `find` takes the values of these columns, in
    this order, as one row of lanes and gives the rows that have them, NULL equal to NULL; `unique`: at most one."""

    columns: tuple[int, ...]
    unique: bool
    find: Callable[[Int64s], list[Column]]
    stored: StoredLanes | None = None


class Outlet:
    """Whether somebody takes the deltas of an operator. While it is closed, an operator need not make them: it changes
    its state, and what `finish` returns may lack rows."""

    __slots__ = ("open",)

    def __init__(self, open: bool = True) -> None:
        self.open = open


#: Of operators whose deltas are needed in any case, because another operator's state is made of them.
ALWAYS = Outlet()


class Maintained(ABC):
    """One query's state and its deltas. `below`: the queries it reads, each once; `reads`: the same as its plan names
    them, where one may stand several times."""

    below: Sequence[Maintained] = ()
    reads: Sequence[Maintained] = ()
    kinds: ClassVar[dict[type, Callable[..., Maintained]]] = {}

    def __init__(self, scope: Scope, plan: AnyPlan, pool: StringPool) -> None:
        self.scope, self.plan, self.pool = scope, plan, pool
        self.types = [f.type for f in plan.fields]
        self.width = width(self.types)
        self.steps = scope.array("steps", np.int64)  # see `work`
        self.has_text = any(t.pooled for t in self.types)
        fields = [pa.field(f.name, f.type.to_arrow(), f.nullable) for f in plan.fields]
        self.delta_schema = pa.schema([*fields, pa.field("_weight", pa.int64(), False)])
        self.no_delta = self.delta_schema.empty_table()

    # Transactions ---------------------------------------------------------------------------------------------

    def remove(self, table: Table, slots: Slots) -> None:
        """Tuples about to leave a table, which still holds them."""
        for query in self.below:
            query.remove(table, slots)

    def insert(self, table: Table, slots: Slots) -> None:
        """Tuples that are now in a table."""
        for query in self.below:
            query.insert(table, slots)

    def reweigh(self, table: Table, slots: Slots, before: Int64s) -> None:
        """Tuples of a bag that stay, with other weights than `before`."""
        for query in self.below:
            query.reweigh(table, slots, before)

    @abstractmethod
    def finish(self) -> Rows:
        """Ends a transaction: the delta of the answer, equal rows added up."""

    # Answers --------------------------------------------------------------------------------------------------

    @abstractmethod
    def batches(self, rows: int) -> Iterator[list[Column]]:
        """The whole answer, at most `rows` rows at a time, in its order if it has one."""

    def unordered(self, rows: int) -> Iterator[list[Column]]:
        """The same in any order, in memory that does not depend on the answer's size."""
        return self.batches(rows)

    @abstractmethod
    def count(self) -> int:
        """Rows of the answer."""

    def finders(self) -> Sequence[Finder]:
        """The ways to find rows of the answer by their values."""
        return ()

    def holds(self, columns: list[Column], rows: int) -> Bools:
        """For each of the rows, whether it is in the answer. Only plans that are looked up can be asked."""
        raise NotImplementedError

    @property
    def unindexed(self) -> Maintained:
        """The query itself, without what only finds its rows."""
        return self

    def packed(self) -> Iterator[Rows]:
        """The whole answer as rows of lanes."""
        for columns in self.unordered(LOAD):
            n = len(columns[0])
            yield Rows(pack(columns, self.pool, n), np.ones(n, np.int64))

    # Making and unmaking --------------------------------------------------------------------------------------

    def load(self, tables: Sequence[Table]) -> None:
        """Takes in what the tables hold already."""
        for query in self.below:
            query.load(tables)

    def close(self) -> None:
        for query in self.below:
            query.close()

    def string_marks(self, marked: Bools) -> None:
        """Marks the text held here, so that the pool keeps it."""
        for query in self.below:
            query.string_marks(marked)

    def statistics(self) -> list[tuple[int, int]]:
        """Tuples and alive tuples of each node of its join tree."""
        return []

    def work(self) -> Work:
        """Steps taken since the view was made, in the queries below as well."""
        return total([self.own_work(), *(query.work() for query in self.below)])

    def own_work(self) -> Work:
        """The same without those below."""
        return Work.kept(self.steps.data)


def keeps(plan: type) -> Callable[[type[Maintained]], type[Maintained]]:
    """Registers the operator that runs a kind of plan."""

    def register(operator: type[Maintained]) -> type[Maintained]:
        Maintained.kinds[plan] = operator
        return operator

    return register


def maintain(
    scope: Scope, plan: AnyPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet = ALWAYS
) -> Maintained:
    """The operator that runs a plan, and the operators below it."""
    return Maintained.kinds[type(plan)](scope, plan, tables, pool, outlet)
