"""Peers that run in a Python process with the dependencies of this repository: Freshet, DuckDB and Polars.

DuckDB and Polars update their tables and answer the query again after each transaction, with one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.peers.queries import PeerQuery
from benchmarks.peers.stream import Changes, Peer, checksum

if TYPE_CHECKING:
    import polars as pl

#: What identifies a row of a table that changes.
KEYS = {"g": ("src", "dst"), "orders": ("o_orderkey",), "lineitem": ("l_orderkey", "l_linenumber")}


class FreshetPeer:
    def __init__(self, query: PeerQuery, all_columns: bool) -> None:
        import freshet
        from freshet.version import __version__

        self.version = f"Freshet {__version__}"
        self._db = freshet.connect()
        for statement in query.ddl(all_columns):
            self._db.execute(statement)
        self._view = self._db.create_view("answer", query.sql)
        self._scales = query.scales
        self._rows, self._check = 0, 0
        self._delta: pa.Table | None = None

    def load(self, tables: Changes) -> None:
        self.apply({name: rows for name, rows in tables.items() if rows.num_rows}, read=True)

    def apply(self, changes: Changes, read: bool) -> None:
        self._delta = self._db.apply(changes).deltas["answer"]

    def applied(self) -> None:
        """The sum of deltas has to be the answer; a total's first delta is about the row that was there before."""
        delta = self._delta
        if delta is not None and delta.num_rows:
            weights = delta["_weight"].to_numpy()
            self._rows += int(weights.sum())
            self._check += checksum(delta.drop_columns(["_weight"]), self._scales, weights)

    def answer(self) -> pa.Table:
        answer = self._view.to_arrow()
        if self._rows and (self._rows, self._check % 2**64) != (answer.num_rows, checksum(answer, self._scales)):
            raise AssertionError("the deltas do not add up to the answer")
        return answer


class DuckDBPeer:
    def __init__(self, query: PeerQuery, all_columns: bool) -> None:
        import duckdb

        self.version = f"DuckDB {duckdb.__version__}"
        self._connection = duckdb.connect(config={"threads": 1})
        self._sql = query.sql
        self._answer: pa.Table | None = None

    def load(self, tables: Changes) -> None:
        for name, rows in tables.items():
            self._connection.register("given", pa.table(rows))
            self._connection.execute(f"CREATE TABLE {name} AS FROM given")
            self._connection.unregister("given")

    def apply(self, changes: Changes, read: bool) -> None:
        connection = self._connection
        connection.execute("BEGIN")
        for name, batch in changes.items():
            same = " AND ".join(f"{name}.{key} = given.{key}" for key in KEYS[name])
            connection.register("given", pa.table(batch))
            connection.execute(f"DELETE FROM {name} USING given WHERE given._weight < 0 AND {same}")
            connection.execute(f"INSERT INTO {name} SELECT * EXCLUDE (_weight) FROM given WHERE _weight > 0")
            connection.unregister("given")
        connection.execute("COMMIT")
        if read:
            self._answer = connection.execute(self._sql).to_arrow_table()

    def applied(self) -> None:
        self._answer = None

    def answer(self) -> pa.Table:
        return self._connection.execute(self._sql).to_arrow_table()


class PolarsPeer:
    def __init__(self, query: PeerQuery, all_columns: bool) -> None:
        os.environ["POLARS_MAX_THREADS"] = "1"
        import polars as pl

        self.version = f"Polars {pl.__version__}"
        self._tables: dict[str, pl.DataFrame] = {}
        self._sql = query.sql

    def load(self, tables: Changes) -> None:
        import polars as pl

        self._tables = {name: pl.DataFrame(pa.table(rows)) for name, rows in tables.items()}

    def apply(self, changes: Changes, read: bool) -> None:
        import polars as pl

        for name, batch in changes.items():
            given = pl.DataFrame(pa.table(batch))
            gone, new = given.filter(pl.col("_weight") < 0), given.filter(pl.col("_weight") > 0).drop("_weight")
            kept = self._tables[name]
            if gone.height:
                kept = kept.join(gone.select(KEYS[name]), on=KEYS[name], how="anti")
            self._tables[name] = pl.concat([kept, new])
        if read:
            self._query()

    def _query(self) -> pl.DataFrame:
        import polars as pl

        return pl.SQLContext(self._tables).execute(self._sql, eager=True)

    def applied(self) -> None:
        pass

    def answer(self) -> pa.Table:
        return self._query().to_arrow()


PEERS: dict[str, Callable[[PeerQuery, bool], Peer]] = {
    "freshet": FreshetPeer, "duckdb": DuckDBPeer, "polars": PolarsPeer,
}  # fmt: skip
