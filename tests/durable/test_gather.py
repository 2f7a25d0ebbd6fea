"""Records found, checked and unpacked by kernels, next to a plain reading of the same bytes."""

from __future__ import annotations

import random
import struct
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import freshet
from freshet.database.changes import resolve
from freshet.database.db import inside
from freshet.database.replay import _gathered
from freshet.durable import log
from freshet.durable.record import TRANSACTION, number_of, rows_payload, signed
from freshet.state.heap import texts_at

Row = tuple[int, tuple[Any, ...]]


def plain(data: bytes, seed: int, table: int, text_lanes: list[int]) -> tuple[int, list[Row]]:
    """How many whole records there are, and the signed rows of one table in them, texts as bytes."""
    at, n, out = 0, 0, list[Row]()
    while at + 32 <= len(data):
        mark, checksum, _, _, _, length = struct.unpack_from("<4sIIIQQ", data, at)
        if mark != b"\xf5rec" or zlib.crc32(data[at + 8 : at + 32 + length], seed) != checksum:
            break
        payload = data[at + 32 : at + 32 + length]
        words = list(struct.unpack(f"<{length // 8}q", payload))
        place = 1
        for _ in range(words[0]):
            number, rows, width, texts, size = words[place : place + 5]
            place += 5
            weights, lanes = words[place : place + rows], words[place + rows : place + rows + rows * width]
            place += rows + rows * width
            ends = [0, *words[place : place + texts]]
            place += texts
            text = payload[8 * place : 8 * place + size]
            place += -(-size // 8)
            if number == table:
                for i, weight in enumerate(weights):
                    row: list[Any] = lanes[i * width : (i + 1) * width]
                    for lane in text_lanes:
                        row[lane] = text[ends[row[lane]] : ends[row[lane] + 1]]
                    out.append((weight, tuple(row)))
        at += 32 + length
        n += 1
    return n, out


def test_the_same_as_a_plain_reading(tmp_path: Path) -> None:
    rng = random.Random(4)
    db = freshet.connect()
    db.execute("CREATE TABLE t (s STRING, d DOUBLE, u STRING); CREATE TABLE k (id INT PRIMARY KEY, w DECIMAL(38, 2))")
    db.execute("CREATE TABLE p (id INT PRIMARY KEY, s STRING NOT NULL, u STRING NOT NULL)")
    db.create_view("reads_one", "SELECT u FROM p")  # the other text is plain
    texts = ["", "a", "ab", "ä€😀", "long " * 50, None]
    for case in range(30):
        made = log.make(tmp_path / f"log{case}", log.Durability.NONE)
        data = b""
        for version in range(rng.choice([1, 3, 40])):
            parts = []
            for name in rng.sample(["t", "k", "p"], rng.choice([0, 1, 2])):
                n, rows = rng.choice([0, 1, 2, 100]), list[dict[str, Any]]()
                if name == "t":
                    rows = [
                        {"s": rng.choice(texts), "d": rng.choice([0.5, None]), "u": rng.choice(texts)} for _ in range(n)
                    ]
                elif name == "p":
                    rows = [
                        {"id": i, "s": rng.choice(texts) or "", "u": rng.choice(texts) or ""}
                        for i in rng.sample(range(500), n)
                    ]
                else:
                    rows = [
                        {"id": i, "w": Decimal(rng.randrange(-(10**30), 10**30))} for i in rng.sample(range(500), n)
                    ]
                change = resolve(inside(db).state.core.tables[name], db.catalog.tables[name], rows)
                parts.append((inside(db).state.core.tables[name], *signed(inside(db).state.core.tables[name], change)))
            data += made.record(TRANSACTION, sum(len(r) for _, r, _ in parts), version + 1, rows_payload(parts))
        bad = bytearray(data)
        if case % 2:
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        (tmp_path / f"log{case}").write_bytes((tmp_path / f"log{case}").read_bytes() + bad)
        whole, _ = plain(bytes(bad), made._seed, 0, [])
        run = made.run(1 << 30, 1 << 40)
        assert (0 if run is None else len(run.payloads)) == whole
        if run is None:
            continue
        for table in inside(db).state.core.tables.values():
            _, expected = plain(bytes(bad), made._seed, number_of(table), table.pooled_lanes)
            rows_found, weights, bases, _held = _gathered(run, table, made.path)
            gathered = rows_found.tolist()
            for row in gathered:
                for lane in table.text_lanes:
                    row[lane] = table.pool.text(np.array([row[lane]]))[0].as_py().encode()
                for lane in table.plain_lanes.tolist():
                    assert bases is not None
                    row[lane] = texts_at(np.array([row[lane]]), int(bases[lane]), 1, pa.large_binary())[0].as_py()
            assert list(zip(weights.tolist(), map(tuple, gathered), strict=True)) == expected
        made.close()
