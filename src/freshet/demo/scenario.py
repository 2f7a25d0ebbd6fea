"""A scenario: tables, rows that exist from the start, and units of rows that are inserted and deleted.

A unit is a set of rows that are inserted and deleted together: an order with its lines, an edge of a graph. An update
sequence is a list of (unit, ±1); each unit is present at most once. There are three ways to make one:

- insert: units are inserted in order, and none is deleted;
- sliding: first in, first out; at the end the window becomes empty;
- random: an absent unit is inserted or a present one deleted, around the window's size; at the end all are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from freshet.errors import PlanError

MODES = ("insert", "sliding", "random")

Integers = npt.NDArray[np.int64]
Transaction = dict[str, pa.Table]


@dataclass(frozen=True)
class Scenario:
    """`moving`: rows of the tables that change, each table's rows in order of their unit; `units` of those rows."""

    name: str
    ddl: str
    queries: Mapping[str, str]
    count: int  # of units
    moving: Mapping[str, pa.Table]
    units: Mapping[str, Integers]
    fixed: Mapping[str, pa.Table] = field(default_factory=dict)

    def sequence(self, mode: str, window: float, seed: int = 1) -> tuple[Integers, Integers]:
        """Units and ±1, in order. `window` is the share of the units that are present at a time."""
        size = max(1, round(window * self.count))
        if mode == "insert":
            return np.arange(self.count, dtype=np.int64), np.ones(self.count, np.int64)
        if mode == "sliding":
            return sliding(self.count, size)
        if mode == "random":
            return random_updates(self.count, size, seed)
        raise PlanError(f"unknown update mode {mode!r}; there are {', '.join(MODES)}")

    def rounds(self, mode: str, window: float, size: int) -> Iterator[Transaction]:
        """All transactions of one round, each of about `size` changed rows."""
        yield from self.transactions(*self.sequence(mode, window), size)

    def transactions(self, units: Integers, weights: Integers, size: int) -> Iterator[Transaction]:
        """The sequence as transactions of about `size` changed rows."""
        starts = {name: np.searchsorted(of, np.arange(self.count + 1)) for name, of in self.units.items()}
        rows = sum((np.diff(s)[units] for s in starts.values()), np.zeros(len(units), np.int64))
        reached = np.cumsum(rows)
        at = 0
        while at < len(units):
            before = reached[at - 1] if at else 0
            end = max(int(np.searchsorted(reached, before + size, "right")), at + 1)
            yield self._changes(starts, units[at:end], weights[at:end])
            at = end

    def _changes(self, starts: Mapping[str, Integers], units: Integers, weights: Integers) -> Transaction:
        changes = {}
        for name, start in starts.items():
            length = (start[1:] - start[:-1])[units]
            within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
            rows = np.repeat(start[units], length) + within
            if len(rows):
                changed = self.moving[name].take(rows).combine_chunks()
                changes[name] = changed.append_column("_weight", pa.array(np.repeat(weights, length)))
        return changes


def sliding(count: int, window: int) -> tuple[Integers, Integers]:
    every = np.arange(count, dtype=np.int64)
    moment = np.concatenate([2 * every + 1, 2 * (every + window)])  # deleted just before its successor
    order = np.argsort(moment, kind="stable")
    return np.concatenate([every, every])[order], np.repeat([1, -1], count)[order]


def random_updates(count: int, window: int, seed: int, rounds: int = 4) -> tuple[Integers, Integers]:
    draw = np.random.default_rng(seed)
    here: list[int] = []
    gone = [int(u) for u in draw.permutation(count)]
    units, weights = [], []
    for coin, place in zip(draw.random(rounds * count), draw.random(rounds * count), strict=True):
        comes = bool(gone) and (not here or coin > len(here) / (2 * window))
        taken = gone if comes else here
        at = int(place * len(taken))
        taken[at], taken[-1] = taken[-1], taken[at]
        unit = taken.pop()
        (here if comes else gone).append(unit)
        units.append(unit)
        weights.append(1 if comes else -1)
    units += here
    weights += [-1] * len(here)
    return np.array(units, np.int64), np.array(weights, np.int64)
