"""A database and its plain twin: the same rows in Arrow tables, DuckDB's answers over them, each view's running sum.

A `TwinTable` knows every row a test may use and how many copies of each the table holds now; a change is a place among
the known rows and a weight. `Twin.move` applies one transaction to both and compares every view: its answer with
DuckDB's, the sum of its deltas with its answer, and its count with both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import freshet
from freshet.database.db import Database
from tests.oracle import RunningSum, duckdb_answer, same_bag

Places = npt.NDArray[np.int64]
Moves = tuple[Places, Places]  # places among the known rows, and the weight of each


class TwinTable:
    def __init__(self, name: str, known: pa.Table, key: tuple[str, ...] = ()) -> None:
        self.name, self.known, self.key = name, known, key
        self.held = np.zeros(known.num_rows, np.int64)
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._keys: Places = np.empty(0, np.int64)

    def learn(self, rows: pa.Table) -> Places:
        """Places of rows not known so far."""
        start = self.known.num_rows
        self.known = pa.concat_tables([self.known, rows.cast(self.known.schema)]).combine_chunks()
        self.held = np.concatenate([self.held, np.zeros(rows.num_rows, np.int64)])
        return np.arange(start, self.known.num_rows)

    def inside(self) -> Places:
        return np.flatnonzero(self.held > 0)

    def outside(self) -> Places:
        """Known rows that could be inserted: not held, and no row with their key is."""
        places = np.flatnonzero(self.held == 0)
        if not self.key:
            return places
        keys = self.keys()
        return places[~np.isin(keys[places], keys[self.inside()])]

    def keys(self) -> Places:
        """A number for the key of each known row, the same for the same key."""
        fresh = self.known.slice(len(self._keys))
        rows = zip(*(fresh.column(k).to_pylist() for k in self.key), strict=True)
        added = [self._numbers.setdefault(row, len(self._numbers)) for row in rows]
        self._keys = np.concatenate([self._keys, np.array(added, np.int64)])
        return self._keys

    def arrow(self) -> pa.Table:
        return self.known.take(np.repeat(np.arange(len(self.held)), self.held))

    def weighted(self, moves: Moves) -> pa.Table:
        """The change as rows with `_weight`."""
        places, weights = moves
        return self.known.take(places).append_column("_weight", pa.array(weights, pa.int64()))

    def feed(self, moves: Moves, key_only: bool = False) -> pa.Table:
        """The change as a change feed; with `key_only`, inserts are upserts, replaced rows are not mentioned, and other
        deletes have NULL for all columns but the key."""
        places, weights = moves
        if key_only:
            keys = self.keys()[places]
            said = (weights > 0) | ~np.isin(keys, keys[weights > 0])
            places, weights = places[said], weights[said]
        kinds = np.where(weights > 0, "upsert" if key_only else "insert", "delete")
        rows = self.known.take(places)
        if key_only:
            gone = pa.array(weights < 0)
            for i, field in enumerate(rows.schema):
                if field.name not in self.key:
                    rows = rows.set_column(
                        i, field, pa.compute.if_else(gone, pa.scalar(None, field.type), rows.column(i))
                    )
        return rows.append_column("_change_type", pa.array(kinds.tolist(), pa.string()))


class Twin:
    """`oracles`: for some views the query in DuckDB's dialect, if it differs."""

    def __init__(
        self,
        db: Database,
        tables: list[TwinTable],
        views: Mapping[str, str],
        oracles: Mapping[str, str] | None = None,
    ) -> None:
        self.db, self.tables, self.sql = db, {t.name: t for t in tables}, {**views, **(oracles or {})}
        self.views = {name: db.create_view(name, sql) for name, sql in views.items()}
        self.sums = {name: RunningSum(view.to_arrow()) for name, view in self.views.items()}
        self.sizes: dict[str, list[int]] = {name: [] for name in views}  # rows without NULLs in each answer compared
        self.rows: dict[str, list[int]] = {name: [] for name in views}  # and all rows
        self.compare()

    def move(self, moves: Mapping[str, Moves], form: str = "weights") -> freshet.Transaction:
        """One transaction. `form` is how the changes are given: weights, feed, or upserts with key-only deletes."""
        changes = {}
        for name, part in moves.items():
            table = self.tables[name]
            if form == "weights" or not table.key:
                changes[name] = table.weighted(part)
            else:
                changes[name] = table.feed(part, key_only=form == "upserts")
            np.add.at(table.held, part[0], part[1])
        tx = self.db.apply(changes)
        for name, total in self.sums.items():
            total.add(tx.deltas[name])
        self.compare()
        return tx

    def compare(self) -> None:
        tables = {name: table.arrow() for name, table in self.tables.items()}
        for name, view in self.views.items():
            answer = view.to_arrow()
            same_bag(answer, duckdb_answer(self.sql[name], tables))
            self.sums[name].equals(answer)
            assert view.count() == answer.num_rows
            self.sizes[name].append(answer.drop_null().num_rows)
            self.rows[name].append(answer.num_rows)


def changed(table: TwinTable, places: Places, rng: np.random.Generator) -> Places:
    """New rows that differ from the given ones in one column, with the value of some other row."""
    column = rng.choice(table.known.column_names)
    others = table.known.column(column).take(rng.integers(0, table.known.num_rows, len(places)))
    rows = table.known.take(places)
    return table.learn(rows.set_column(rows.column_names.index(column), column, others))


def transaction(table: TwinTable, rng: np.random.Generator, most: int, updates: bool = True) -> Moves:
    """Some rows are deleted, some inserted, some updated: a value, a foreign key, or the primary key itself; `most` of
    each, and twice as many inserted."""
    inside, size = rng.permutation(table.inside()), most
    gone, moved = inside[: rng.integers(0, size + 1)], inside[size : size + rng.integers(0, size + 1) * updates]
    fresh = changed(table, moved, rng)
    keys = table.keys()
    taken = set(keys[np.setdiff1d(inside, np.concatenate([gone, moved]))])
    come = []
    for p in [*fresh, *rng.permutation(table.outside())[: rng.integers(0, 2 * size + 1)]]:
        if keys[p] not in taken:
            come.append(int(p))
            taken.add(keys[p])
    places = np.concatenate([gone, moved, np.array(come, np.int64)])
    weights = np.concatenate([np.full(len(gone) + len(moved), -1), np.ones(len(come), np.int64)])
    order = rng.permutation(len(places))
    return places[order], weights[order]


def waves(
    twin: Twin,
    rng: np.random.Generator,
    steps: int,
    first: int = 6,
    pace: Mapping[str, int] | None = None,
    in_order: bool = False,
) -> None:
    """Random transactions over all tables: tables fill up in the first steps, then grow and shrink again. `pace`: fewer
    than this many rows of a table change at a time (default 5). In order, rows are inserted in their given order, each
    once, and deleted in the same order; otherwise in any order, and a bag may hold duplicates."""
    fresh = dict.fromkeys(twin.tables, 0)
    for step in range(steps):
        rise = step < first or (step // 4) % 2 == 0
        moves = {}
        for name, table in twin.tables.items():
            many = (pace or {}).get(name, 5)
            inside, outside = table.inside(), table.outside()
            if in_order:
                outside = outside[outside >= fresh[name]]
            else:
                inside, outside = rng.permutation(inside), rng.permutation(outside)
            come = outside[: rng.integers(0, many if rise else 2)]
            gone = inside[: rng.integers(0, 2 if rise else many)]
            if table.key:  # only one row with the same key can be inserted
                come = come[np.unique(table.keys()[come], return_index=True)[1]]
            weights = [np.ones(len(come), np.int64), -table.held[gone]]
            if not in_order and not table.key:
                weights = [rng.choice([1, 1, 1, 2], len(come)), -rng.integers(1, table.held[gone] + 1)]
            fresh[name] = max([fresh[name], *(come + 1)])
            moves[name] = (np.concatenate([come, gone]), np.concatenate(weights))
        twin.move(moves)


def drain(twin: Twin) -> None:
    """Takes every row away, a table at a time."""
    for name, table in twin.tables.items():
        inside = table.inside()
        twin.move({name: (inside, -table.held[inside])})


def complete_graph(size: int) -> pa.Table:
    """Every edge there could be, loops included."""
    ends = np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1).reshape(-1, 2)
    return pa.table({"src": ends[:, 0], "dst": ends[:, 1]})
