"""Every query of few relations over few attributes, one of each kind up to renaming of attributes.

Sets of attributes are bits here, and all queries of one size one array: a query represents its kind if no renaming
gives a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, permutations

import numpy as np
import numpy.typing as npt

from freshet.query import Hypergraph

Codes = npt.NDArray[np.int64]
NAMES = "abcde"


@cache
def renamings(attributes: int) -> Codes:
    """For each renaming, the image of each set of attributes."""
    sets = np.arange(1 << attributes)
    all_renamed = []
    for order in permutations(range(attributes)):
        renamed = np.zeros_like(sets)
        for old, new in enumerate(order):
            renamed |= ((sets >> old) & 1) << new
        all_renamed.append(renamed)
    return np.array(all_renamed)


@cache
def every_join(relations: int, attributes: int) -> Codes:
    """The relations of every query, a row for each kind; a relation may occur twice, or have no attributes."""
    rows = np.array(list(combinations_with_replacement(range(1 << attributes), relations)))
    own = _number(rows, attributes)
    least = own.copy()
    for renamed in renamings(attributes):
        np.minimum(least, _number(np.sort(renamed[rows], axis=1), attributes), out=least)
    kinds: Codes = rows[own == least]
    return kinds


@cache
def every_query(relations: int, attributes: int) -> Codes:
    """The same with every output: the last column."""
    joins = every_join(relations, attributes)
    outputs = np.arange(1 << attributes)
    rows = np.column_stack([np.repeat(joins, len(outputs), axis=0), np.tile(outputs, len(joins))])
    used = np.bitwise_or.reduce(rows[:, :-1], axis=1)
    rows = rows[rows[:, -1] & ~used == 0]
    own = _number(rows, attributes)
    least = own.copy()
    for renamed in renamings(attributes):
        other = np.column_stack([np.sort(renamed[rows[:, :-1]], axis=1), renamed[rows[:, -1]]])
        np.minimum(least, _number(other, attributes), out=least)
    kinds: Codes = rows[own == least]
    return kinds


def _number(rows: Codes, attributes: int) -> Codes:
    numbers = np.zeros(len(rows), np.int64)
    for column in rows.T:
        numbers = (numbers << attributes) | column
    return numbers


def named(code: int) -> frozenset[str]:
    return frozenset(name for i, name in enumerate(NAMES) if code >> i & 1)


def hypergraphs(rows: Codes, attributes: int) -> Iterator[Hypergraph]:
    """As the engine knows them; rows of `every_query`."""
    sets = [named(code) for code in range(1 << attributes)]
    for *relations, output in rows.tolist():
        yield Hypergraph(tuple(sets[r] for r in relations), sets[output])
