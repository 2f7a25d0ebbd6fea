"""VALUES: rows that never change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from freshet.engine.maintained import Maintained, Outlet, keeps
from freshet.engine.table import Table
from freshet.plans.model import ValuesPlan
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate
from freshet.scalar.expression import Literal, Reference
from freshet.scalar.functions.rows import constants
from freshet.scalar.lanes import pack, unpack
from freshet.state.arena import Scope
from freshet.state.rows import Rows, joined
from freshet.state.strings import StringPool


@keeps(ValuesPlan)
class Constant(Maintained):
    def __init__(
        self, scope: Scope, plan: ValuesPlan, tables: Mapping[str, Table], pool: StringPool, outlet: Outlet
    ) -> None:
        super().__init__(scope, plan, pool)
        self.plan: ValuesPlan = plan

    def finish(self) -> Rows:
        return joined([], self.width)

    def batches(self, rows: int) -> Iterator[list[Column]]:
        for start in range(0, len(self.plan.rows), rows):
            part = self.plan.rows[start : start + rows]
            literals = [[e for e in row if isinstance(e, Literal)] for row in part]
            if all(len(found) == len(self.types) for found in literals):
                columns = [constants(column) for column in zip(*literals, strict=True)]
                lanes = [pack(columns, self.pool, len(part))]
            else:
                lanes = [pack([evaluate(e, _no_columns, 1) for e in row], self.pool, 1) for row in part]
            yield unpack(np.concatenate(lanes), self.types, self.pool)

    def count(self) -> int:
        return len(self.plan.rows)

    def load(self, tables: Sequence[Table]) -> None:
        for _ in self.batches(max(len(self.plan.rows), 1)):
            pass  # a value that cannot be computed is refused when the view is created, not when it is read


def _no_columns(column: Reference) -> Column:
    raise AssertionError(f"{column} in a constant")
