"""Finds rows in the answer of a select whose groups are stored: by their keys, all of which are outputs.

A group is one row of the answer, so a row is in the answer exactly if the outputs of the group with its keys are the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from freshet.engine.aggregate import Aggregate
from freshet.engine.keys import shown_groups
from freshet.plans.model import QueryPlan
from freshet.scalar.column import Column
from freshet.scalar.lanes import pack
from freshet.state.arrays import Bools, Int64s
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots

#: The outputs of groups, given as columns, that satisfy HAVING; and which these are, if not all.
Project = Callable[[list[Column], int], tuple[list[Column], Bools | None]]


class GroupMembers:
    def __init__(self, plan: QueryPlan, aggregate: Aggregate, project: Project, pool: StringPool) -> None:
        self.keys = shown_groups(plan)
        self.aggregate, self.project, self.pool = aggregate, project, pool

    def among(self, keys: Sequence[Column], n: int) -> tuple[Slots, list[Column]]:
        """Which of n rows have the keys of a group in the answer, and the outputs of these groups."""
        at, groups = self.aggregate.among(keys, n)
        outputs, kept = self.project(groups, len(at))
        return (at if kept is None else at[kept]), outputs

    def copies(self, columns: list[Column], n: int) -> Int64s:
        """For each of n rows, how many copies of it are in the answer: one, or none."""
        copies = np.zeros(n, np.int64)
        at, outputs = self.among([columns[i] for i in self.keys], n)
        same = pack(outputs, self.pool, len(at)) == pack([c.take(at) for c in columns], self.pool, len(at))
        copies[at[same.all(axis=1)]] = 1
        return copies
