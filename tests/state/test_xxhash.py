"""XXH64 compared with its definition, written down in plain Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.state.xxhash import hash_numbers, hash_texts

P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
M = 2**64 - 1


def turned(x: int, bits: int) -> int:
    return (x << bits | x >> (64 - bits)) & M


def step(state: int, word: int) -> int:
    return turned((state + word * P2) & M, 31) * P1 & M


def xxh64(data: bytes, seed: int) -> int:
    at, size = 0, len(data)

    def word(length: int) -> int:
        return int.from_bytes(data[at : at + length], "little")

    hashed = (seed + P5) & M
    if size >= 32:
        lanes = [(seed + P1 + P2) & M, (seed + P2) & M, seed, (seed - P1) & M]
        while at <= size - 32:
            for i in range(4):
                lanes[i] = step(lanes[i], word(8))
                at += 8
        hashed = sum(turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & M
        for lane in lanes:
            hashed = ((hashed ^ step(0, lane)) * P1 + P4) & M
    hashed = (hashed + size) & M
    while at <= size - 8:
        hashed = (turned(hashed ^ step(0, word(8)), 27) * P1 + P4) & M
        at += 8
    if at <= size - 4:
        hashed = (turned(hashed ^ (word(4) * P1 & M), 23) * P2 + P3) & M
        at += 4
    while at < size:
        hashed = turned(hashed ^ (word(1) * P5 & M), 11) * P1 & M
        at += 1
    hashed = (hashed ^ hashed >> 33) * P2 & M
    hashed = (hashed ^ hashed >> 29) * P3 & M
    return hashed ^ hashed >> 32


def test_known_hashes() -> None:
    """Of the reference implementation."""
    assert xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert xxh64(b"abc", 0) == 0x44BC2CF5AD770999
    assert xxh64(b"Nobody inspects the spammish repetition", 0) == 0xFBCEA83C8A378BF1


seeds = st.integers(0, M)
texts = st.one_of(st.none(), st.binary(max_size=100))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@given(rows=st.lists(st.tuples(seeds, texts), max_size=8), skipped=st.integers(0, 3))
def test_texts(kind: pa.DataType, rows: list[tuple[int, bytes | None]], skipped: int) -> None:
    hashes = np.array([seed for seed, _ in rows], np.uint64)
    values = pa.array([b"skipped"] * skipped + [text for _, text in rows], kind)[skipped:]
    hash_texts(hashes, values, np.array([text is not None for _, text in rows], np.bool_))
    assert hashes.tolist() == [seed if text is None else xxh64(text, seed) for seed, text in rows]


@pytest.mark.parametrize("size", [4, 8])
@given(data=st.data())
def test_numbers(size: int, data: st.DataObject) -> None:
    number = st.one_of(st.none(), st.integers(-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1))
    rows = data.draw(st.lists(st.tuples(seeds, number), max_size=8))
    hashes = np.array([seed for seed, _ in rows], np.uint64)
    valid = np.array([value is not None for _, value in rows], np.bool_)
    hash_numbers(hashes, np.array([value or 0 for _, value in rows], np.int64), valid, size == 4)
    as_bytes = [None if value is None else value.to_bytes(size, "little", signed=True) for _, value in rows]
    assert hashes.tolist() == [
        seed if text is None else xxh64(text, seed) for (seed, _), text in zip(rows, as_bytes, strict=True)
    ]
