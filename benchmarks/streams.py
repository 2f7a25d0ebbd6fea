"""Streams of changes, in the form of a user's transactions: dictionaries of Arrow tables with a `_weight` column.

A sliding window is first in, first out: a row leaves before the row that replaces it arrives, and when the rows are
exhausted the window may be drained completely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]
Transaction = dict[str, pa.Table]


def sliding_window(count: int, window: int, drain: bool = True) -> tuple[Integers, Integers]:
    """Which of `count` rows moves at each step, and its weight: +1 when it enters the window, -1 when it leaves."""
    entering = np.arange(count, dtype=np.int64)
    leaving = np.arange(count if drain else max(count - window, 0), dtype=np.int64)
    # Row i leaves when row i + window arrives, just before it.
    moment = np.concatenate([2 * entering + 1, 2 * (leaving + window)])
    order = np.argsort(moment, kind="stable")
    rows = np.concatenate([entering, leaving])[order]
    weights = np.concatenate([np.ones_like(entering), -np.ones_like(leaving)])[order]
    return rows, weights


def skewed_edges(vertices: int = 20_000, edges: int = 100_000, seed: int = 1) -> Integers:
    """Distinct edges without loops, one per row, in random order. Squaring a uniform variable makes low vertices
    hubs."""
    random = np.random.default_rng(seed)
    ends = (vertices * random.random((3 * edges, 2)) ** 2).astype(np.int64)
    distinct = np.unique(ends, axis=0)
    distinct = distinct[distinct[:, 0] != distinct[:, 1]]
    return random.permutation(distinct)[:edges]


def edge_window(edges: Integers, window: int) -> pa.Table:
    """A sliding window over a graph's edges: src, dst, _weight."""
    rows, weights = sliding_window(len(edges), window)
    return pa.table({"src": edges[rows, 0], "dst": edges[rows, 1], "_weight": weights})


def in_transactions(changes: pa.Table, table: str, size: int) -> Iterator[Transaction]:
    """The changes to one table, `size` at a time."""
    for start in range(0, changes.num_rows, size):
        yield {table: changes.slice(start, size)}


@dataclass(frozen=True)
class OrderWindow:
    """Orders and their lines by order date, in a sliding window over the orders.

    An order and its lines enter and leave together, the order first when entering and last when leaving; the changes of
    both tables form one sequence that is cut into transactions of equal size.
    """

    orders: pa.Table
    lineitem: pa.Table
    row: Integers  # of orders or lineitem, depending on the step
    weight: Integers
    is_line: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    def transactions(self, size: int, first: int = 0, last: int | None = None) -> Iterator[Transaction]:
        """The transactions of changes `first` to `last` of the sequence, `size` changes each."""
        last = len(self) if last is None else last
        for start in range(first, last, size):
            part = slice(start, min(start + size, last))
            yield {
                name: _changes(table, self.row[part][chosen], self.weight[part][chosen])
                for name, table, chosen in (
                    ("orders", self.orders, ~self.is_line[part]),
                    ("lineitem", self.lineitem, self.is_line[part]),
                )
                if chosen.any()
            }

    @property
    def moving(self) -> tuple[str, ...]:
        names = (("orders", ~self.is_line), ("lineitem", self.is_line))
        return tuple(name for name, chosen in names if chosen.any())

    def only(self, tables: Collection[str]) -> OrderWindow:
        """The changes of some of the tables."""
        kept = self.is_line if "orders" not in tables else ~self.is_line
        if len(tables) == 2:
            return self
        return OrderWindow(self.orders, self.lineitem, self.row[kept], self.weight[kept], self.is_line[kept])

    def surviving(self, changes: int | None = None) -> Transaction:
        """The rows of the tables in the window after a number of changes (by default, all)."""
        row, weight, is_line = (array[:changes] for array in (self.row, self.weight, self.is_line))
        return {
            name: table.take(np.flatnonzero(np.bincount(row[chosen], weight[chosen], table.num_rows)))
            for name, table, chosen in (("orders", self.orders, ~is_line), ("lineitem", self.lineitem, is_line))
            if name in self.moving
        }


@dataclass(frozen=True)
class TableWindow:
    """A sliding window over the rows of one table, in their order."""

    name: str
    table: pa.Table
    row: Integers
    weight: Integers

    @property
    def moving(self) -> tuple[str, ...]:
        return (self.name,)

    def __len__(self) -> int:
        return len(self.row)

    def transactions(self, size: int, first: int = 0, last: int | None = None) -> Iterator[Transaction]:
        for start in range(first, len(self) if last is None else last, size):
            part = slice(start, min(start + size, len(self) if last is None else last))
            yield {self.name: _changes(self.table, self.row[part], self.weight[part])}

    def surviving(self, changes: int | None = None) -> Transaction:
        held = np.bincount(self.row[:changes], self.weight[:changes], self.table.num_rows)
        return {self.name: self.table.take(np.flatnonzero(held))}


def table_window(name: str, table: pa.Table, share: float) -> TableWindow:
    return TableWindow(name, table, *sliding_window(table.num_rows, round(share * table.num_rows), drain=False))


def order_window(orders: pa.Table, lineitem: pa.Table, share: float) -> OrderWindow:
    """A window that holds the given share of the orders; the last ones stay in it."""
    orders = orders.sort_by([("o_orderdate", "ascending"), ("o_orderkey", "ascending")])
    rank = pc.index_in(lineitem["l_orderkey"], orders["o_orderkey"]).to_numpy().astype(np.int64)
    order_of_line = np.argsort(rank, kind="stable")
    lineitem, rank = lineitem.take(order_of_line), rank[order_of_line]

    count = orders.num_rows
    window = round(share * count)
    moved, weight = sliding_window(count, window, drain=False)
    first_line = np.searchsorted(rank, np.arange(count + 1)).astype(np.int64)
    lines = np.diff(first_line)

    # Each step of the order window becomes 1 + lines steps: position 0 is the order when it enters, the last is the
    # order when it leaves; the others are its lines.
    length = 1 + lines[moved]
    step = np.repeat(np.arange(len(moved)), length)
    within = np.arange(len(step)) - np.repeat(np.cumsum(length) - length, length)
    entering = weight[step] > 0
    is_line = np.where(entering, within > 0, within < length[step] - 1)
    line = first_line[moved[step]] + within - entering
    return OrderWindow(orders, lineitem, np.where(is_line, line, moved[step]), weight[step], is_line)


def _changes(table: pa.Table, rows: Integers, weights: Integers) -> pa.Table:
    changes: Any = table.take(rows).combine_chunks()
    return changes.append_column("_weight", pa.array(weights))
