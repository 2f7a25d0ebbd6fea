"""The log of a shard over a long stream in which every row is deleted after a while: it stays proportional to the
current rows, and a shard rebuilt from it continues as if nothing had happened."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from freshet.errors import StateError
from freshet.scalar.arrow import to_arrow
from freshet.spark import level as level_module
from freshet.spark import log as log_module
from freshet.spark.block import from_block, to_block
from freshet.spark.dispatch import shard_keys
from freshet.spark.encode import Encoder
from freshet.spark.level import Level
from freshet.spark.log import Block, Entries, ShardFolder, ShardLog, read_entry
from freshet.spark.maintain import compile_job
from freshet.spark.observed import OBSERVED
from freshet.spark.shard import Shard
from freshet.spark.shipped import pack_job
from freshet.spark.transaction import read_block
from freshet.state.arena import Arena
from tests.spark.level_job import LevelJob, Store
from tests.spark.streams import Sum

DDL = "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, s STRING)"
LIVE, STEP, BATCHES = 12_000, 3_000, 40


def changes(first: int) -> pa.Table:
    """The next rows are inserted and, once the table is full, the oldest deleted."""
    come, go = np.arange(first, first + STEP), np.arange(first - LIVE, first - LIVE + STEP)
    ids = np.concatenate([come, go[go >= 0]])
    weights = np.where(ids >= first, 1, -1)
    notes = pa.array([f"note {i % 100}" for i in ids.tolist()])
    return pa.table([pa.array(ids), pa.array(ids), notes, pa.array(weights)], ["id", "v", "s", "_weight"])


def entries(store: Store) -> list[tuple[Any, ...]]:
    """Of its log, in whatever form."""
    together = store.values.get("shard")
    return store.log.held if together is None else [] if together.held is None else together.held[9]


def files(place: Path) -> list[Path]:
    return [f for f in place.rglob("log/*/*") if f.is_file()]


@pytest.mark.parametrize("form", ["state store", "files", "files, one value"])
def test_a_long_stream(tmp_path: Path, form: str) -> None:
    sql = "SELECT s, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY s"
    job = compile_job(sql, DDL, 1, None)
    shipped, store = pack_job(job), Store()
    in_folder, together = form != "state store", form == "files, one value"
    (stream,) = job.streams
    place = ShardFolder(str(tmp_path), 0, 0) if in_folder else None
    total, rewritten = Sum(), 0
    for number in range(BATCHES):
        # Without an arena: every batch makes the shard again from its log.
        level = Level(shipped, 0, None, str(tmp_path) if in_folder else None, 1, together=together)
        level.init(cast(StatefulProcessorHandle, store))
        rows = [
            Row(key=r["key"], level=r["level"], stream=r["stream"], payload=r["payload"])
            for made in Encoder(shipped, "t")(changes(number * STEP).to_batches())
            for r in made.to_pylist()
        ]
        before = len(entries(store))
        emitted = list(level.handleInputRows((shard_keys(1)[0],), iter(rows), None))
        rewritten += len(entries(store)) <= before
        live = min((number + 1) * STEP, LIVE)
        shard = Shard(job, 0, 0, Arena())
        blocks = [read_entry(place, *entry) for _, *entry in entries(store)]
        logged = shard.load(stream.name, (read_block(shard, stream.name, b) for b in blocks))
        shard.loaded()
        assert shard.live_rows() == live
        assert logged <= 3 * live, (number, logged)
        compact = sum(len(to_block(part)) for _, part in shard.contents())
        held = sum(len(payload or b"") for _, payload, *_ in entries(store)) + sum(
            f.stat().st_size for f in files(tmp_path)
        )
        assert sum(map(len, blocks)) <= 3 * compact, number
        assert held <= 4 * compact, number  # with the entries of the previous version, directly after a rewrite
        for row in emitted:
            if row.stream == OBSERVED:
                continue
            delta = from_block(row.payload, [f.type for f in job.views[0].fields])
            total.add(pa.table([*map(to_arrow, delta.columns), pa.array(delta.weights)], ["s", "n", "total", "w"]))
    assert 3 < rewritten < BATCHES - 3  # compacted repeatedly, but not at every batch
    assert bool(files(tmp_path)) == in_folder
    there = range(BATCHES * STEP - LIVE, BATCHES * STEP)
    groups = [[i for i in there if i % 100 == s] for s in range(100)]
    assert total.weights == {(f"note {s}", len(g), sum(g)): 1 for s, g in enumerate(groups)}


BIG, LITTLE = b"b" * 100_000, b"l" * 600


def merged(blocks: Mapping[str, list[bytes]]) -> list[Block]:
    return [(name, b"".join(payloads)) for name, payloads in blocks.items()]


def test_small_blocks_come_together(tmp_path: Path) -> None:
    """However small the transactions: few entries, few files, and nothing lost."""
    entries, place = Entries(), ShardFolder(str(tmp_path), 0, 0)
    log, most = ShardLog(entries, place), 0
    for version in range(1, 1001):
        log.append(version, [("a", LITTLE), ("b", LITTLE)], merged)
        log = ShardLog(entries, place, log.bases, log.small)
        most = max(most, sum(len(payload or b"") for _, payload, *_ in entries.held))
    assert most == log_limit()
    assert len(files(tmp_path)) == 18 and len(entries.held) < 36 + 110
    assert {name: b"".join(blocks) for name, blocks in log.read().items()} == {"a": LITTLE * 1000, "b": LITTLE * 1000}


def log_limit() -> int:
    """The maximal size of entries of LITTLE pairs."""
    return (64 << 10) // (2 * len(LITTLE)) * 2 * len(LITTLE)


def test_files_are_there_as_long_as_named(tmp_path: Path) -> None:
    entries, place = Entries(), ShardFolder(str(tmp_path), 0, 0)
    log = ShardLog(entries, place)
    log.append(1, [("a", BIG)], merged)
    log.append(2, [("a", BIG)], merged)
    version2 = list(entries.held)
    late = ShardLog(Entries(), place, log.bases, log.small)  # a task at version 2 that everybody takes for dead
    log.rewrite(3, [("a", BIG)])
    version3 = list(entries.held)
    late.rewrite(3, [("a", BIG)])
    late_files = {e[2] for e in late.entries.held}
    for e in version2 + version3:
        assert read_entry(place, *e[1:]) == BIG
    for version, retained in ((4, 2), (6, 100), (7, 5)):
        ShardLog(entries, place, log.bases, log.small).sweep(version, retained)
        assert len(files(tmp_path)) == 4  # Spark can go back to version 2
    ShardLog(Entries(), place).sweep(5, 1)
    assert len(files(tmp_path)) == 4  # a log at version 2 needs the files from before version 3
    log.sweep(7, 4)
    assert {f.name for f in files(tmp_path)} == {e[2] for e in version3} | late_files
    assert log.bases == [3]
    (path,) = (f for f in files(tmp_path) if f.name not in late_files)
    with pytest.raises(StateError, match="give maintain"):
        read_entry(None, *version3[0][1:])
    path.write_bytes(BIG[:-1] + b"x")
    with pytest.raises(StateError, match="is not as it was written"):
        read_entry(place, *version3[0][1:])
    path.unlink()
    with pytest.raises(StateError, match="is not there"):
        read_entry(place, *version3[0][1:])


@given(st.data(), st.integers(1, 4))
def test_going_back(data: st.DataObject, retained: int) -> None:
    """Back to any version that Spark retains, repeatedly: the files it names exist, and it continues from there."""
    job = compile_job("SELECT s, SUM(v) AS total FROM t GROUP BY s", DDL, 1, None)
    with tempfile.TemporaryDirectory() as folder, patched(log_module, _SMALL=100), patched(level_module, _LEAST_LOG=4):
        running = LevelJob(job, Path(folder) / "checkpoint", None, retained)
        held, total, versions = set[int](), Sum(), [(running.kept(), frozenset[int](), Counter[Any]())]
        for _ in range(data.draw(st.integers(1, 14))):
            if len(versions) > 1 and data.draw(st.booleans()):
                back = data.draw(st.integers(1, len(versions) - 1))
                del versions[len(versions) - back :]
                stores, ids, weights = versions[-1]
                running.stores, held, total.weights = copy.deepcopy(stores), {*ids}, Counter(weights)
            else:
                changed = data.draw(st.sets(st.integers(0, 9), min_size=1, max_size=6))
                rows = [(i, f"{i % 2} of two", 10 * i, -1 if i in held else 1) for i in sorted(changed)]
                columns = [pa.array(c) for c in zip(*rows, strict=True)]
                delta = running.apply({"t": pa.table(columns, ["id", "s", "v", "_weight"])})
                held ^= changed
                total.add(delta.get("view", pa.table({"s": ["x"], "total": [0], "w": [0]})[:0]))
                versions.append((running.kept(), frozenset(held), Counter(total.weights)))
                versions = versions[-1 - retained :]
            groups = {i % 2: [10 * j for j in held if j % 2 == i % 2] for i in held}
            assert total.weights == {(f"{g} of two", sum(vs)): 1 for g, vs in groups.items()}


@contextlib.contextmanager
def patched(module: Any, **values: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(module, name, value)
        yield
