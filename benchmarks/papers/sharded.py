"""Streams run by the shards of a job in this process, and what its busiest shards had.

All shards of a level work at the same time, and a level begins when the one below has ended. So the critical path of a
micro-batch is the sum over its levels of what the busiest shard of each had; that of a stream, the sum over its
micro-batches. It depends on data and plans alone, not on the number of cores that run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.agreement import differing_rows
from benchmarks.local_job import Load, LocalJob
from benchmarks.papers.harness import Row
from benchmarks.streams import Transaction
from freshet.plans.model import AnyPlan
from freshet.spark.job import Job

NOTHING = Load(0, 0, 0)


@dataclass
class Critical:
    """Sums over the micro-batches of a stream, by level: of the busiest shard, and of all shards."""

    busiest: list[Load]
    every: list[Load]
    changes: int = 0
    distinct: int = 0

    @classmethod
    def of(cls, job: Job) -> Critical:
        return cls([NOTHING] * job.levels, [NOTHING] * job.levels)

    def add(self, running: LocalJob, changes: int) -> None:
        self.changes += changes
        self.distinct += running.distinct
        for level in range(running.job.levels):
            had = [load for (at, _), load in running.loads.items() if at == level] or [NOTHING]
            most = Load(max(h.rows for h in had), max(h.nbytes for h in had), max(h.steps for h in had))
            self.busiest[level] = _sum([self.busiest[level], most])
            self.every[level] = _sum([self.every[level], *had])

    def row(self) -> Row:
        """The columns of most tables."""
        path, every = _sum(self.busiest), _sum(self.every)
        changes = max(self.changes, 1)
        return {
            "levels": len(self.busiest),
            "busiest rows": path.rows,
            "busiest KB": round(path.nbytes / 1e3),
            "rows a change": round(path.rows / changes, 4),
            "steps a change": round(path.steps / changes, 4),
            "copies of a row": round(every.rows / max(self.distinct, 1), 3),
            "shuffled KB": round(every.nbytes / 1e3),
        }


def run_sharded(
    job: Job, transactions: Iterable[Transaction], plan: AnyPlan, sql: str, held: dict[str, pa.Table], chunk: int
) -> Critical:
    """Applies all transactions and compares the sum of the deltas with DuckDB's answer over the tables' last rows."""
    running, critical = LocalJob(job, chunk), Critical.of(job)
    deltas = []
    for transaction in transactions:
        deltas.append(running.apply(transaction)["view"])
        critical.add(running, sum(rows.num_rows for rows in transaction.values()))
    differing = differing_rows(_summed(deltas, [f.name for f in plan.fields]), sql, held)
    if differing:
        raise AssertionError(f"{differing} rows of {job.shards} shards differ from DuckDB's answer: {sql}")
    for shard in running.shards.values():
        shard.close()
    return critical


def _sum(loads: Sequence[Load]) -> Load:
    return Load(sum(x.rows for x in loads), sum(x.nbytes for x in loads), sum(x.steps for x in loads))


def _summed(deltas: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    """The rows that deltas add up to, duplicates repeated."""
    every = pa.concat_tables(deltas)
    places = [f"c{i}" for i in range(len(columns))]
    added = every.rename_columns([*places, "weight"]).group_by(places).aggregate([("weight", "sum")])
    weights = added["weight_sum"].to_numpy()
    if len(weights) and weights.min() < 0:
        raise AssertionError("the deltas remove rows that they never added")
    return added.select(places).take(np.repeat(np.arange(len(weights)), weights)).rename_columns(list(columns))
