"""Update sequences over several tables: rows come at one moment and go at another, and the moves are cut into
transactions. First in, first out has λ = 1; lifespans that lie inside others make it grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.papers.data import Timed
from benchmarks.streams import Integers, Transaction

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Moves:
    """At each step one row of one table comes (+1) or goes (-1)."""

    tables: dict[str, pa.Table]
    table: Integers  # a place among the tables
    row: Integers
    weight: Integers

    def __len__(self) -> int:
        return len(self.row)

    def transactions(self, size: int, first: int = 0, last: int | None = None) -> Iterator[Transaction]:
        """Steps first to last, `size` at a time."""
        last = len(self) if last is None else min(last, len(self))
        for start in range(first, last, size):
            part = slice(start, min(start + size, last))
            transaction = {}
            for i, (name, rows) in enumerate(self.tables.items()):
                chosen = self.table[part] == i
                if chosen.any():
                    weights = pa.array(self.weight[part][chosen])
                    transaction[name] = rows.take(self.row[part][chosen]).append_column("_weight", weights)
            yield transaction

    def held(self, steps: int | None = None) -> dict[str, pa.Table]:
        """The rows there after so many steps (all, by default)."""
        found = {}
        for i, (name, rows) in enumerate(self.tables.items()):
            chosen = self.table[:steps] == i
            copies = np.bincount(self.row[:steps][chosen], self.weight[:steps][chosen], rows.num_rows)
            found[name] = rows.take(np.flatnonzero(copies))
        return found


def by_lifespan(tables: Mapping[str, pa.Table], begin: Mapping[str, Integers], end: Mapping[str, Integers]) -> Moves:
    """Each row comes at its `begin` and goes at its `end`, unless that is NEVER. At one moment rows go first."""
    table, row, weight, moment = [], [], [], []
    for i, (name, rows) in enumerate(tables.items()):
        every = np.arange(rows.num_rows)
        going = np.flatnonzero(end[name] != NEVER)
        table.append(np.full(len(every) + len(going), i))
        row += [every, going]
        weight.append(np.repeat([1, -1], [len(every), len(going)]))
        moment += [begin[name], end[name][going]]
    weights = np.concatenate(weight)
    order = np.lexsort((weights, np.concatenate(moment)))
    return Moves(dict(tables), np.concatenate(table)[order], np.concatenate(row)[order], weights[order])


def time_window(timed: Mapping[str, Timed], window: int) -> Moves:
    """Rows that go a fixed time after they came; those of moment 0 stay."""
    end = {name: np.where(t.moment == 0, NEVER, t.moment + window) for name, t in timed.items()}
    return by_lifespan({n: t.rows for n, t in timed.items()}, {n: t.moment for n, t in timed.items()}, end)


def inserts(tables: Mapping[str, pa.Table], seed: int = 1) -> Moves:
    """Every row comes once and stays, in an order drawn at random over all tables."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(sum(t.num_rows for t in tables.values()))
    begin, start = {}, 0
    for name, rows in tables.items():
        begin[name] = order[start : start + rows.num_rows]
        start += rows.num_rows
    return by_lifespan(tables, begin, {n: np.full(t.num_rows, NEVER) for n, t in tables.items()})
