"""Joins cut into levels: the answers of DuckDB after every transaction, parts no larger than their trunks, and the
choice between levels and HyperCube."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from benchmarks.local_job import LocalJob
from freshet.spark.cuts import Layout
from freshet.spark.explain import explain_job
from freshet.spark.job import Job
from freshet.spark.maintain import compile_job
from tests.oracle import duckdb_answer, same_bag
from tests.spark.streams import Sum

DDL = """
CREATE TABLE fact (id BIGINT PRIMARY KEY, a BIGINT, b BIGINT, x BIGINT);
CREATE TABLE a (id BIGINT PRIMARY KEY, c BIGINT, g BIGINT);
CREATE TABLE b (id BIGINT PRIMARY KEY, c BIGINT, g BIGINT);
CREATE TABLE c (id BIGINT PRIMARY KEY, name STRING);
"""
COLUMNS = {"fact": ("id", "a", "b", "x"), "a": ("id", "c", "g"), "b": ("id", "c", "g"), "c": ("id", "name")}
KEYS = "FOREIGN KEY (a) REFERENCES a (id), FOREIGN KEY (b) REFERENCES b (id)"
CUT = {
    "chain": "SELECT fact.id, fact.x, a.g, c.name FROM fact, a, c WHERE fact.a = a.id AND a.c = c.id",
    "star": "SELECT fact.x, a.g, b.g AS h FROM fact, a, b WHERE fact.a = a.id AND fact.b = b.id",
    "groups": "SELECT c.name, SUM(x) AS s, COUNT(*) AS n FROM fact, a, c WHERE fact.a = a.id AND a.c = c.id"
    " GROUP BY c.name",
    "diamond": "SELECT c.name, SUM(x) AS s FROM fact, a, b, c WHERE fact.a = a.id AND fact.b = b.id AND a.c = c.id"
    " AND b.c = c.id GROUP BY c.name",
    "compared": "SELECT fact.id, a.g, b.g AS h FROM fact, a, b WHERE fact.a = a.id AND fact.b = b.id AND a.g < b.g"
    " AND fact.x <> a.c",
    "half_keyed": "SELECT a.id, b.id AS o, fact.id AS f FROM a, b, fact WHERE a.g = b.g AND fact.a = a.id",
    "arms": "SELECT fact.id, a.g, b.g AS h FROM fact, a, b WHERE fact.a = a.id AND fact.b = b.id"
    " AND EXISTS (SELECT 1 FROM c WHERE c.id = a.c) AND NOT EXISTS (SELECT 1 FROM c WHERE c.id = b.g)",
    "arms_of_two": "SELECT fact.id, a.g FROM fact, a WHERE fact.a = a.id AND EXISTS (SELECT 1 FROM b, c"
    " WHERE b.id = fact.b AND c.id = b.g) AND NOT EXISTS (SELECT 1 FROM b, c WHERE b.id = a.c AND c.id = b.c)",
    "outer": "SELECT fact.id, a.g, b.g AS h, c.name FROM fact JOIN a ON fact.a = a.id JOIN b ON fact.b = b.id"
    " LEFT JOIN c ON c.id = a.c",
    "filtered": "SELECT fact.x, a.g, c.name FROM fact, a, c WHERE fact.a = a.id AND a.c = c.id AND a.g > 1 AND x <> 2",
    "distinct_count": "SELECT c.name, COUNT(DISTINCT fact.b) AS n FROM fact, a, c WHERE fact.a = a.id AND a.c = c.id"
    " GROUP BY c.name",
}  # fmt: skip
WHOLE = {
    "no_keys": "SELECT a.id, b.id AS o FROM a, b WHERE a.g = b.g",
    "compared_keys": "SELECT a.id, b.id AS o FROM a, b WHERE a.g < b.g",
    "one_table": "SELECT g, COUNT(*) AS n FROM a GROUP BY g",
    "outer_alone": "SELECT a.id, c.name FROM a LEFT JOIN c ON c.id = a.c",
}
EVEN = dict.fromkeys(COLUMNS, 100.0)


class Tables:
    """Rows that come, go and change in all tables, referring to rows that may be missing."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.held: dict[str, dict[int, tuple[object, ...]]] = {name: {} for name in COLUMNS}

    def transaction(self) -> dict[str, pa.Table]:
        changed = {}
        for name, held in self.held.items():
            moves: list[tuple[object, ...]] = []
            for key in self.random.sample(range(12 if name == "fact" else 6), 4):
                before = held.pop(key, None)
                if before is not None:
                    moves.append((*before, -1))
                if before is None or self.random.random() < 0.5:
                    held[key] = self._row(name, key)
                    moves.append((*held[key], 1))
            changed[name] = pa.Table.from_pylist(
                [dict(zip((*COLUMNS[name], "_weight"), m, strict=True)) for m in moves], self._schema(name, True)
            )
        return changed

    def _row(self, name: str, key: int) -> tuple[object, ...]:
        if name == "c":
            return key, f"name {key % 2}"
        return key, *(self.random.choice([None, 0, 1, 2, 3, 4, 5]) for _ in COLUMNS[name][1:])

    def _schema(self, name: str, weighted: bool) -> pa.Schema:
        fields = [pa.field(c, pa.string() if c == "name" else pa.int64()) for c in COLUMNS[name]]
        return pa.schema([*fields, pa.field("_weight", pa.int64())] if weighted else fields)

    def arrow(self) -> dict[str, pa.Table]:
        return {
            name: pa.Table.from_pylist(
                [dict(zip(COLUMNS[name], row, strict=True)) for row in held.values()], self._schema(name, False)
            )
            for name, held in self.held.items()
        }


def check(sql: str, ddl: str, shards: int, seed: int) -> Job:
    job = compile_job(sql, ddl, shards, EVEN, layout=Layout.LEVELS)
    running, tables, total, most = LocalJob(job), Tables(seed), Sum(), 0
    for number in range(8):
        delta = running.apply(tables.transaction())["view"]
        total.add(delta)
        held = tables.arrow()
        same_bag(total.answer(delta.schema.remove(len(delta.schema) - 1)), duckdb_answer(sql, held))
        most = max(most, *no_larger_than_trunks(running, held), 0)
        if number == 4:
            running.forget()
    assert (most > 0) == any(o.trunk for o in job.operators), "the rows of parts were stored and counted"
    return job


def no_larger_than_trunks(running: LocalJob, held: dict[str, pa.Table]) -> Iterator[int]:
    """The rows that are stored of each part."""
    for operator in (o for o in running.job.operators if o.trunk):
        for stream in (s for s in running.job.streams if operator.name in s.sources):
            stored = [shard.tables[stream.name] for shard in running.shards.values() if stream.name in shard.tables]
            rows = sum(int(t.weights.data[t.tuples.slots()].sum()) for t in stored if t.weights is not None)
            copies = 1
            for dimension in stream.grid:
                copies *= 1 if dimension.hashed else dimension.share
            assert rows <= copies * held[operator.trunk].num_rows, (operator.name, rows)
            yield rows


@pytest.mark.parametrize("declared", [False, True], ids=["undeclared", "declared"])
@pytest.mark.parametrize("view", CUT)
def test_answers_by_levels(view: str, declared: bool) -> None:
    ddl = DDL.replace("x BIGINT)", f"x BIGINT, {KEYS})") if declared else DDL
    for shards, seed in ((2, 1), (3, 2), (8, 3)):
        job = check(CUT[view], ddl, shards, seed)
        assert any(o.trunk for o in job.operators), explain_job(job, EVEN)


@pytest.mark.parametrize("view", WHOLE)
def test_not_cut_without_a_key(view: str) -> None:
    assert not any(o.trunk for o in check(WHOLE[view], DDL, 4, 1).operators)


def layout(sql: str, sizes: dict[str, float] | None, shards: int = 32) -> str:
    return explain_job(compile_job(sql, DDL, shards, sizes), sizes)


def test_the_cheaper_layout_is_chosen() -> None:
    large = {"fact": 4e6, "a": 1e6, "c": 3e5, "b": 1e5}
    told = layout(CUT["chain"], large)
    assert "#0 reads a, c, sends a row at most for each of a to where it is stored" in told
    assert "its levels bring the busiest shard 196,875 rows, HyperCube alone 431,250" in told
    assert "sends" not in layout(CUT["chain"], large | {"c": 25.0})  # copies of 25 rows cost less than a level
    assert "sends" not in layout(CUT["chain"], None)  # nothing is known
    assert "sends" not in layout(CUT["chain"], large, 1)
