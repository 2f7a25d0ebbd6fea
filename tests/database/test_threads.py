"""Any thread may use a database at any time: tests/stress has the actors, and `make stress` runs them for longer."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import freshet
from freshet.state.strings import StringPool
from tests.stress.run import stress
from tests.stress.world import World


def text(key: int) -> str:
    return f"text number {key} " + "x" * (key * 7919 % 90)


@pytest.mark.parametrize("where", ["memory", "files"])
def test_deltas_read_in_other_threads_while_the_writer_goes_on(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transaction inserts 500 rows and deletes 500, the text of the old ones is swept after every other one, and
    three threads read the writer's deltas."""
    swept = iter(range(10**9))
    monkeypatch.setattr(StringPool, "wants_sweep", lambda pool: next(swept) % 2 == 1)
    db = freshet.connect(tmp_path / "db" if where == "files" else None)
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)")
    db.create_view("v", "SELECT id, s FROM t")
    steps, handed, wrong = 300, queue.Queue[tuple[int, freshet.Transaction] | None](20), list[object]()

    def table(step: int) -> pa.Table:
        keys = np.arange(step * 500, step * 500 + 500)
        return pa.table({"id": keys, "s": [text(int(k)) for k in keys]})

    made = {step: table(step) for step in range(-2, steps)}

    def change(step: int) -> pa.Table:
        parts = [(made[step], 1)] + ([(made[step - 2], -1)] if step >= 2 else [])
        return pa.concat_tables(t.append_column("_weight", pa.array([w] * 500)) for t, w in parts)

    def read() -> None:
        while (got := handed.get()) is not None:
            try:
                delta = got[1].deltas["v"].sort_by("id")
                if not delta.equals(change(got[0]).sort_by("id").cast(delta.schema)):
                    wrong.append((got[0], delta))
            except Exception as e:
                wrong.append(e)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for step in range(steps):
        handed.put((step, db.apply({"t": change(step)})))
    for _ in readers:
        handed.put(None)
    for reader in readers:
        reader.join()
    db.close()
    assert not wrong


def all_happened(world: World) -> None:
    """A run in which an actor did no work proves nothing."""
    for what in (
        "transactions", "transactions read", "transactions read late", "refused transactions", "answers read",
        "answers read in batches", "answers that moved on", "copies read", "figures read", "queries asked",
        "plans made", "definitions changed", "subscribers served", "changes followed",
    ):  # fmt: skip
        assert world.done[what], (what, world.done)


@pytest.mark.parametrize("where", ["memory", "files"])
def test_threads_that_write_define_read_and_ask(where: str, tmp_path: Path) -> None:
    stress(4, 7, tmp_path / "db" if where == "files" else None)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_threads_for_longer(seed: int, tmp_path: Path) -> None:
    all_happened(stress(60, seed, tmp_path / "db" if seed % 2 else None))
