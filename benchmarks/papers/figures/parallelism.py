"""AJU, figure 16, CROWN, figure 10, and Cquirrel, figure 1: the critical path as shards are added.

The papers measure clusters. Here the shards of a Spark job run in one process, by the same encoding, dispatch and
engine, and what the busiest shard of each level receives and computes is counted (`papers/sharded.py`).

All tables slide, first in, first out, except those of a few rows, which are loaded first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.papers.data import DAY, social_network
from benchmarks.papers.figures.fifo import TPCH, WINDOW, tpch_sliding
from benchmarks.papers.harness import Plot, Result, Size, Verdict
from benchmarks.papers.queries import GRAPH_DDL, SNB_DDL, graph_queries, snb_queries
from benchmarks.papers.sequences import Moves, all_sliding, time_window
from benchmarks.papers.sharded import Critical, run_sharded
from benchmarks.streams import Integers, skewed_edges
from freshet.plans import plan as make_plan
from freshet.plans.model import QueryPlan
from freshet.spark.cuts import Layout
from freshet.spark.heavy import Heavy
from freshet.spark.stages import make_job
from freshet.sql.catalog import Catalog

SHARDS = (1, 2, 4, 8, 16, 32)
TRANSACTIONS = 8


@dataclass(frozen=True)
class Workload:
    name: str
    ddl: str
    sql: str
    moves: Moves
    heavy: Heavy | None = None

    @property
    def plan(self) -> QueryPlan:
        plan = make_plan(self.sql, Catalog.from_ddl(self.ddl)).root
        assert isinstance(plan, QueryPlan)
        return plan

    def critical(self, shards: int, layout: Layout = Layout.CHEAPEST) -> Critical:
        """The critical path of the stream until its middle, when the window is full."""
        plan = self.plan
        sizes = {name: float(rows.num_rows) for name, rows in self.moves.tables.items()}
        half = len(self.moves) // 2
        each = -(-half // TRANSACTIONS)
        job = make_job({"view": plan}, shards, sizes, layout=layout, heavy=self.heavy)
        return run_sharded(job, self.moves.transactions(each, 0, half), plan, self.sql, self.moves.held(half), each)


def run(size: Size) -> Iterator[Result]:
    every = workloads(size)
    yield speedup(every, size)
    yield from layouts(every, size)
    yield heavy(size)


def speedup(every: Sequence[Workload], size: Size) -> Result:
    result = Result("parallelism", "AJU 16, CROWN 10, Cquirrel 1: the critical path as shards are added",
                    Plot("shards", "rows a change", "query", log="xy"))  # fmt: skip
    for workload in every:
        for shards in size.scales(SHARDS, SHARDS, (1, 16)):
            critical = workload.critical(int(shards))
            result.rows.append({"query": workload.name, "shards": int(shards), **critical.row()})
        _judge_speedup(result, workload)
    return result


def layouts(every: Sequence[Workload], size: Size) -> Iterator[Result]:
    """Copies against levels, with as many shards as there are at most."""
    shards = size.pick(32, 32, 16)
    result = Result("parallelism-layouts", f"Cquirrel 1: HyperCube, levels, and what is chosen, {shards} shards",
                    Plot("query", "rows a change", "layout", bars=True))  # fmt: skip
    levels = Result("parallelism-levels", f"The busiest shard of each level, {shards} shards",
                    Plot("query and level", "busiest rows", "layout", bars=True))  # fmt: skip
    for workload in every:
        for layout in Layout:
            critical = workload.critical(shards, layout)
            result.rows.append({"query": workload.name, "layout": layout.value, **critical.row()})
            for level, (most, all_shards) in enumerate(zip(critical.busiest, critical.every, strict=True)):
                levels.rows.append({
                    "query and level": f"{workload.name}, {level}", "layout": layout.value, "busiest rows": most.rows,
                    "mean rows": round(all_shards.rows / shards), "busiest KB": round(most.nbytes / 1e3),
                    "busiest steps": most.steps,
                })  # fmt: skip
        _judge_layouts(result, workload.name)
    yield from (result, levels)


def workloads(size: Size) -> list[Workload]:
    (factor,) = size.scales((0.02,), (0.01,), (0.001,))
    made = [Workload(name, *tpch_sliding(name, factor)) for name in TPCH]
    edges = skewed_edges(size.pick(4_000, 2_000, 300), size.pick(20_000, 10_000, 1_500))
    graph = all_sliding({"g": pa.table({"src": edges[:, 0], "dst": edges[:, 1]})}, WINDOW)
    ddl = GRAPH_DDL.split(";")[0]
    made.append(Workload("three_hop", ddl, graph_queries()["three_hop"], graph))
    network = time_window(social_network(size.pick(1_000, 500, 60)), 60 * DAY)
    return [*made, Workload("snb_3", SNB_DDL, snb_queries()["snb_3"], network)]


def _judge_speedup(result: Result, workload: Workload) -> None:
    """HyperCube with p shards divides the load of a join of k relations by the k-th root of p or more."""
    rows = result.series("busiest rows", query=workload.name)
    shards, relations = result.series("shards", query=workload.name)[-1], len(workload.plan.relations)
    speedup, least = rows[0] / rows[-1], shards ** (1 / relations)
    text = f"{workload.name}: {shards:g} shards divide the busiest shard's rows by {speedup:.1f} (at least {least:.1f})"
    result.verdicts.append(Verdict(text, speedup >= least))


def _judge_layouts(result: Result, query: str) -> None:
    """The layout that is chosen has to bring the busiest shard about the fewest rows. The planner's estimate of them
    knows the sizes of tables, and nothing of filters."""
    rows = {way: result.series("busiest rows", query=query, layout=way.value)[0] for way in Layout}
    times = rows[Layout.CHEAPEST] / min(rows[Layout.HYPERCUBE], rows[Layout.LEVELS])
    text = f"{query}: the chosen layout brings the busiest shard {times:.2f} times the rows of the better (at most 1.5)"
    result.verdicts.append(Verdict(text, times <= 1.5))
    if query in TPCH:
        (copies,) = result.series("copies of a row", query=query, layout=Layout.LEVELS.value)
        result.verdicts.append(Verdict(f"{query}: by levels no row is copied: {copies:g} of each", copies == 1))


# Heavy keys ---------------------------------------------------------------------------------------------------------

SHOP_DDL = """CREATE TABLE account (id BIGINT PRIMARY KEY, owner BIGINT);
CREATE TABLE payment (id BIGINT PRIMARY KEY, account BIGINT, total BIGINT)"""
PAID = "SELECT payment.id, owner, total FROM payment, account WHERE payment.account = account.id"
HEAVY = {"payment": {"account": {0: 0.3}}}


def heavy(size: Size) -> Result:
    """30 % of the payments are of one account: by its hash they are all on one shard."""
    result = Result("parallelism-heavy", "A key with 30 % of the rows next to even keys",
                    Plot("shards", "rows a change", "keys", log="xy"))  # fmt: skip
    payments = size.pick(40_000, 20_000, 2_000)
    draw = np.random.default_rng(1)
    even = draw.integers(0, payments // 2, payments)
    skewed = np.where(draw.random(payments) < 0.3, 0, even)
    for keys, accounts, split in (("even", even, None), ("heavy", skewed, None), ("heavy, split", skewed, HEAVY)):
        workload = Workload("paid", SHOP_DDL, PAID, _paid(accounts), split)
        for shards in size.scales(SHARDS, SHARDS, (1, 16)):
            critical = workload.critical(int(shards))
            result.rows.append({"keys": keys, "shards": int(shards), **critical.row()})
    even_rows, whole, spread = (result.series("busiest rows", keys=k)[-1] for k in ("even", "heavy", "heavy, split"))
    times = spread / even_rows
    text = f"split, a heavy key brings the busiest shard {times:.2f} times the rows of even keys (at most 1.3)"
    result.verdicts.append(Verdict(text, times <= 1.3))
    text = f"not split, {whole / even_rows:.1f} times (more than twice those when it is split)"
    result.verdicts.append(Verdict(text, whole > 2 * spread))
    return result


def _paid(accounts: Integers) -> Moves:
    number = np.arange(len(accounts))
    owners = np.arange(len(accounts) // 2)
    return all_sliding({
        "account": pa.table({"id": owners, "owner": owners % 100}),
        "payment": pa.table({"id": number, "account": accounts, "total": number % 1_000}),
    }, WINDOW)  # fmt: skip
