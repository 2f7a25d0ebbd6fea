"""Update sequences of a wanted enclosureness.

Some rows stay once they have come; the others are *fleeting*: round after round all of them come and go again. Rounds
are disjoint, and within one the fleeting rows go in the order in which they came, so a fleeting row encloses nothing
but itself and a staying row encloses as many lifespans as it sees rounds. With n staying rows, m fleeting ones and k
rounds, of which staying row i misses the first r_i, there are n + k m tuples and

    λ (n + k m) = Σ (k - r_i) + k m.

The fewest rounds that can reach the wanted λ are taken, and as many rows come after the first of them as that λ asks
for: what comes out is off by half a lifespan in all, which is λ to within 1 / (2 (n + k m)).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.change_type import CHANGE_TYPE, WEIGHT
from freshet.database.enclosureness import as_arrow, identity
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
    """Transactions over the tables of `rows` whose λ is `enclosure`, as `Database.apply` and `enclosure` take them.

    `rows`: the rows of each table, every one of them different. `fleeting`: how many rows of which tables come and go,
    one of each table if nothing is said; all others stay. What makes a join pay for λ are fleeting rows far down in
    its tree that many staying rows join. λ is at most about 1 + staying / fleeting rows. `size`: changes in a
    transaction, at most. `seed`: decides which rows are fleeting, and the order in which all come.
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
    """Rows of all tables, numbered through: those that stay and those that come and go."""

    def __init__(self, tables: Mapping[str, pa.Table], staying: Int64s, fleeting: Int64s) -> None:
        self.tables, self.staying, self.fleeting = tables, staying, fleeting

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
            found: dict[str, pa.Table] = {}
            first = 0
            for name, table in self.tables.items():
                mine = part[(part >= first) & (part < first + table.num_rows)] - first
                first += table.num_rows
                if len(mine):
                    found[name] = table.take(mine).append_column(WEIGHT, pa.array(np.full(len(mine), weight)))
            yield found


def _different(table: pa.Table, name: str) -> pa.Table:
    table = table.drop_columns([c for c in (WEIGHT, CHANGE_TYPE) if c in table.column_names])
    numbers = identity(table)
    _, firsts = np.unique(numbers, return_index=True)
    if len(firsts) < len(numbers):
        again = int(np.setdiff1d(np.arange(len(numbers)), firsts)[0])
        raise ChangeError("the row is there twice, and copies of a row share one lifespan; give it once", name, again)
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
                f"{count} fleeting rows of {name}, which has {tables[name].num_rows}; give so many or less"
            )
    first, chosen = 0, []
    for name, table in tables.items():
        chosen.append(first + random.permutation(table.num_rows)[: wanted.get(name, 0)])
        first += table.num_rows
    fleeting = np.concatenate([np.empty(0, np.int64), *chosen])
    staying = random.permutation(np.setdiff1d(np.arange(first), fleeting))
    return _Chosen(tables, staying, fleeting)


def _rounds(enclosure: float, staying: int, fleeting: int) -> tuple[int, int]:
    """The rounds, and how many of the staying rows come after the first of them."""
    gain = staying + fleeting - enclosure * fleeting  # what one more round adds beyond the wanted average
    if enclosure > 1 and (not staying or not fleeting or gain <= 0):
        most = 1 + staying / fleeting if staying and fleeting else 1
        raise ChangeError(
            f"an enclosureness of {enclosure:g} with {staying} staying and {fleeting} fleeting rows, which reach less "
            f"than {most:g}; let more rows stay, or fewer be fleeting"
        )
    rounds = max(1, math.ceil(enclosure * staying / gain - 1e-9)) if staying else 1
    total = round(enclosure * (staying + rounds * fleeting))
    return rounds, min(max(0, rounds * (staying + fleeting) - total), staying if rounds > 1 else 0)
