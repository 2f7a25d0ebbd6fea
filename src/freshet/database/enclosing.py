"""Update sequences with a given enclosureness.

Some rows stay after their insertion; the others are *fleeting*: they are all inserted and deleted again in every round.
Rounds are disjoint, and within one the fleeting rows are deleted in the order of their insertion, so a fleeting row
encloses only itself, and a staying row encloses as many lifespans as it sees rounds. With n staying rows, m fleeting
ones and k rounds, of which staying row i misses the first r_i, there are n + k m tuples and

    λ (n + k m) = Σ (k - r_i) + k m.

The sequence has the fewest rounds that can reach the given λ, and as many staying rows are inserted after the first
round as that λ requires. The total is off by at most half a lifespan, so λ is exact to within 1 / (2 (n + k m)).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.change_type import CHANGE_TYPE, WEIGHT
from freshet.database.lifespans import as_arrow, identity
from freshet.errors import ChangeError
from freshet.state.arrays import Int64s


def enclosure_stream(
    rows: Mapping[str, Any],
    enclosure: float,
    *,
    fleeting: Mapping[str, int] | None = None,
    size: int = 1_000,
    seed: int = 0,
) -> Iterator[dict[str, pa.Table]]:
    """Make transactions whose λ is `enclosure`, as `Database.apply` and `freshet.enclosure` take them.

    A join is expensive under a large λ if many staying rows join with fleeting rows far down in its tree. λ is at most
    about 1 + staying / fleeting rows.

    Parameters
    ----------
    rows
        The rows of each table, all different.
    enclosure
        The λ of the sequence, 1 or more.
    fleeting
        How many rows of which tables are fleeting; by default one of each table. All others stay.
    size
        The maximal number of changes in a transaction.
    seed
        Determines which rows are fleeting, and the order of insertion.

    Returns
    -------
    Iterator of dict
        Transactions in order, each a dict of table name to ``pyarrow.Table``.

    Raises
    ------
    ChangeError
        Rows are repeated, or no sequence over them has that λ.

    Examples
    --------
    >>> import freshet
    >>> stream = list(freshet.enclosure_stream({"t": [{"a": i} for i in range(100)]}, 5.0, size=10))
    >>> round(freshet.enclosure(stream).sequence)
    5
    """
    tables = {name: _different(as_arrow(given), name) for name, given in rows.items()}
    chosen = _fleeting(tables, fleeting, np.random.default_rng(seed))
    if not 1 <= enclosure < math.inf:
        raise ChangeError(f"an enclosureness of {enclosure}; it is 1 or more")
    if size < 1:
        raise ChangeError(f"transactions of {size} changes; give 1 or more")
    rounds, late = _rounds(enclosure, len(chosen.staying), len(chosen.fleeting))
    return chosen.transactions(rounds, late, size)


class _Chosen:
    """Rows of all tables, numbered consecutively: those that stay and those that are fleeting."""

    def __init__(self, tables: Mapping[str, pa.Table], staying: Int64s, fleeting: Int64s) -> None:
        self.tables = tables
        self.staying = staying
        self.fleeting = fleeting

    def transactions(self, rounds: int, late: int, size: int) -> Iterator[dict[str, pa.Table]]:
        early = len(self.staying) - late
        yield from self._changed(self.staying[:early], 1, size)
        for i in range(rounds):
            for weight in (1, -1):
                yield from self._changed(self.fleeting, weight, size)
            if i == 0:
                yield from self._changed(self.staying[early:], 1, size)

    def _changed(self, numbers: Int64s, weight: int, size: int) -> Iterator[dict[str, pa.Table]]:
        for start in range(0, len(numbers), size):
            part = numbers[start : start + size]
            changes: dict[str, pa.Table] = {}
            first = 0
            for name, table in self.tables.items():
                mine = part[(part >= first) & (part < first + table.num_rows)] - first
                first += table.num_rows
                if len(mine):
                    changes[name] = table.take(mine).append_column(WEIGHT, pa.array(np.full(len(mine), weight)))
            yield changes


def _different(table: pa.Table, name: str) -> pa.Table:
    table = table.drop_columns([c for c in (WEIGHT, CHANGE_TYPE) if c in table.column_names])
    numbers = identity(table)
    _, firsts = np.unique(numbers, return_index=True)
    if len(firsts) < len(numbers):
        again = int(np.setdiff1d(np.arange(len(numbers)), firsts)[0])
        raise ChangeError("the row occurs twice, and copies of a row share one lifespan; give it once", name, again)
    return table


def _fleeting(tables: Mapping[str, pa.Table], wanted: Mapping[str, int] | None, random: np.random.Generator) -> _Chosen:
    wanted = {n: min(1, t.num_rows) for n, t in tables.items()} if wanted is None else wanted
    for name, count in wanted.items():
        if name not in tables:
            raise ChangeError(
                f"fleeting rows of {name}, of which no rows are given; the tables are {', '.join(tables)}"
            )
        if not 0 <= count <= tables[name].num_rows:
            raise ChangeError(
                f"{count} fleeting rows of {name}, which has {tables[name].num_rows}; give at most that many"
            )
    first, chosen = 0, []
    for name, table in tables.items():
        chosen.append(first + random.permutation(table.num_rows)[: wanted.get(name, 0)])
        first += table.num_rows
    fleeting = np.concatenate([np.empty(0, np.int64), *chosen])
    staying = random.permutation(np.setdiff1d(np.arange(first), fleeting))
    return _Chosen(tables, staying, fleeting)


def _rounds(enclosure: float, staying: int, fleeting: int) -> tuple[int, int]:
    """The number of rounds, and how many of the staying rows are inserted after the first round."""
    gain = staying + fleeting - enclosure * fleeting  # what one more round adds beyond the given average
    if enclosure > 1 and (not staying or not fleeting or gain <= 0):
        most = 1 + staying / fleeting if staying and fleeting else 1
        raise ChangeError(
            f"an enclosureness of {enclosure:g} with {staying} staying and {fleeting} fleeting rows, which reach less "
            f"than {most:g}; let more rows stay, or fewer be fleeting"
        )
    rounds = max(1, math.ceil(enclosure * staying / gain - 1e-9)) if staying else 1
    total = round(enclosure * (staying + rounds * fleeting))
    return rounds, min(max(0, rounds * (staying + fleeting) - total), staying if rounds > 1 else 0)
