"""Dispatch: which cells of its grid each row of a stream goes to, and the keys that spread cells over partitions.

A cell's number is its coordinates in mixed radix. Hashes depend on values alone, so a row and its later removal, in
whatever process, meet in the same cells.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate
from freshet.scalar.expression import Reference
from freshet.scalar.functions.rows import text_of
from freshet.scalar.lanes import values
from freshet.spark.job import Dimension
from freshet.state.arena import Arena
from freshet.state.arrays import Bools, Int64s
from freshet.state.strings import StringPool
from freshet.state.texts import hash_texts

_MIX = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xA0761D6478BD642F)


def hash_rows(columns: Sequence[Column], rows: int) -> npt.NDArray[Any]:
    """A well-mixed 64-bit hash of each row."""
    out = np.full(rows, _MIX, np.uint64)
    for column in columns:
        for lane in _lanes(column):
            out = _mixed(out ^ lane)
    return out


def _lanes(column: Column) -> Iterator[npt.NDArray[Any]]:
    if column.type.pooled:
        found = [_text_hashes(column)]
    else:
        wide = values(column, _no_pool())
        found = [np.ascontiguousarray(wide[:, i]).view(np.uint64) for i in range(wide.shape[1])]
    for lane in found:
        yield lane if column.valid is None else np.where(column.valid, lane, _NULL)


def _text_hashes(column: Column) -> npt.NDArray[Any]:
    text = text_of(column)
    if text.offset:
        text = pa.concat_arrays([text, text[:0]])
    out = np.empty(len(text), np.uint64)
    _, offsets, data = text.buffers()
    if len(text):
        hash_texts(offsets.address, data.address if data is not None else 0, out)
    return out


def _mixed(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[Any] = x ^ (x >> np.uint64(31))
    return mixed


@functools.cache
def _no_pool() -> StringPool:
    """Numbers need no pool, but the function that reads their lanes asks for one."""
    return StringPool(Arena().scope("text"))


def cells(
    grid: Sequence[Dimension], read: Callable[[Reference], Column], rows: int
) -> Iterator[tuple[tuple[int, ...], npt.NDArray[Any] | None]]:
    """Which rows go where: each set of cells with the rows they all get, None for all rows."""
    base: Int64s = np.zeros(rows, np.int64)
    copies = [0]
    everywhere: list[tuple[int, int, Bools]] = []  # of a dimension that copies heavy values, and the rows with them
    stride = 1
    hashed = False
    for dimension in grid:
        if dimension.hashed:
            hashes = hash_rows([evaluate(e, read, rows) for e in dimension.hashed], rows)
            if dimension.heavy:
                heavy = np.isin(hashes, np.array(dimension.heavy, np.uint64))
                if dimension.row:
                    whole = hash_rows([evaluate(e, read, rows) for e in dimension.row], rows)
                    hashes = np.where(heavy, whole, hashes)
                elif heavy.any():
                    hashes = np.where(heavy, np.uint64(0), hashes)
                    everywhere.append((stride, dimension.share, heavy))
            base += (hashes % np.uint64(dimension.share)).astype(np.int64) * stride
            hashed = True
        else:
            copies = [c + i * stride for i in range(dimension.share) for c in copies]
        stride *= dimension.share
    if not hashed:
        yield tuple(copies), None
    elif not everywhere:
        yield from _by_cell(base, copies, np.arange(rows))
    else:
        yield from _with_heavy(base, copies, everywhere)


def _by_cell(base: Int64s, copies: Sequence[int], at: Int64s) -> Iterator[tuple[tuple[int, ...], Int64s | None]]:
    """Rows `at` these places, by the cell that is the first to get them."""
    base = base[at]
    order = np.argsort(base, kind="stable")
    found, starts = np.unique(base[order], return_index=True)
    for cell, start, end in zip(found.tolist(), starts.tolist(), [*starts.tolist(), len(at)][1:], strict=True):
        yield tuple(cell + c for c in copies), None if end - start == len(base) else at[order[start:end]]


def _with_heavy(
    base: Int64s, copies: Sequence[int], everywhere: Sequence[tuple[int, int, Bools]]
) -> Iterator[tuple[tuple[int, ...], Int64s]]:
    """The same where rows with heavy values are copied along further dimensions."""
    pattern = sum(heavy.astype(np.int64) << i for i, (_, _, heavy) in enumerate(everywhere))
    for each in np.unique(pattern).tolist():
        further = list(copies)
        for i, (stride, share, _) in enumerate(everywhere):
            if each >> i & 1:
                further = [c + k * stride for k in range(share) for c in further]
        at = np.flatnonzero(pattern == each)
        for where, chosen in _by_cell(base, further, at):
            yield where, at if chosen is None else chosen


def first_copies(grid: Sequence[Dimension], cell: int, read: Callable[[Reference], Column], rows: int) -> Bools:
    """Of which rows this cell is the first of all cells that get them."""
    first: Bools = np.zeros(rows, np.bool_)
    for where, chosen in cells(grid, read, rows):
        if where[0] == cell:
            first[slice(None) if chosen is None else chosen] = True
    return first


# Spark's own partitioning ---------------------------------------------------------------------------------------


@functools.cache
def shard_keys(shards: int) -> tuple[int, ...]:
    """A key for each shard such that Spark's hash puts shard s into partition s of `shards`, or of any multiple in
    different ones: otherwise two shards might share a partition while a core idles."""
    keys: dict[int, int] = {}
    candidate = 0
    while len(keys) < shards:
        keys.setdefault(spark_hash(candidate) % shards, candidate)
        candidate += 1
    return tuple(keys[s] for s in range(shards))


def spark_hash(value: int) -> int:
    """Spark's hash() of a BIGINT: Murmur3 over its two halves, seed 42."""
    h = 42
    for word in (value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF):
        k = word * 0xCC9E2D51 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) & 0xFFFFFFFF
        h ^= k * 0x1B873593 & 0xFFFFFFFF
        h = (h << 13 | h >> 19) & 0xFFFFFFFF
        h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 8
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h
