"""Update sequences over several tables: rows are inserted at one moment and deleted at another, and the steps are
grouped into transactions. First in, first out has λ = 1; lifespans inside others increase it."""

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
    """At each step one row of one table is inserted (+1) or deleted (-1)."""

    tables: dict[str, pa.Table]
    table: Integers  # the index of a table
    row: Integers
    weight: Integers

    def __len__(self) -> int:
        return len(self.row)

    def transactions(self, size: int, first: int = 0, last: int | None = None) -> Iterator[Transaction]:
        """The transactions of steps `first` to `last`, `size` steps each."""
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
        """The rows after a number of steps (by default, all)."""
        rows_left = {}
        for i, (name, rows) in enumerate(self.tables.items()):
            chosen = self.table[:steps] == i
            copies = np.bincount(self.row[:steps][chosen], self.weight[:steps][chosen], rows.num_rows)
            rows_left[name] = rows.take(np.flatnonzero(copies))
        return rows_left


def by_lifespan(tables: Mapping[str, pa.Table], begin: Mapping[str, Integers], end: Mapping[str, Integers]) -> Moves:
    """Each row is inserted at its `begin` and deleted at its `end`, unless that is NEVER. At the same moment deletes
    come first."""
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
    """Rows that are deleted a fixed time after their insertion; those of moment 0 stay."""
    end = {name: np.where(t.moment == 0, NEVER, t.moment + window) for name, t in timed.items()}
    return by_lifespan({n: t.rows for n, t in timed.items()}, {n: t.moment for n, t in timed.items()}, end)


def inserts(tables: Mapping[str, pa.Table], seed: int = 1) -> Moves:
    """Every row is inserted once and stays, in a random order over all tables."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(sum(t.num_rows for t in tables.values()))
    begin, start = {}, 0
    for name, rows in tables.items():
        begin[name] = order[start : start + rows.num_rows]
        start += rows.num_rows
    return by_lifespan(tables, begin, {n: np.full(t.num_rows, NEVER) for n, t in tables.items()})


def all_sliding(tables: Mapping[str, pa.Table], share: float, least: int = 100) -> Moves:
    """All tables slide at the same pace, first in, first out: each always holds this share of its rows. Tables of fewer
    rows than `least` are inserted first and stay."""
    finest = 10 * max(t.num_rows for t in tables.values())
    begin, end = {}, {}
    for name, rows in tables.items():
        moment = 1 + np.arange(rows.num_rows) * finest // max(rows.num_rows, 1)
        stays = rows.num_rows < least
        begin[name] = np.zeros_like(moment) if stays else moment
        end[name] = np.full_like(moment, NEVER) if stays else moment + round(share * finest)
    return by_lifespan(tables, begin, end)
