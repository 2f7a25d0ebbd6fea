"""A view on the page: its counts, its last answer, and how a page shows it."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from freshet.plans import Plan
from freshet.web.answer import Window, delta_rows, groups_of, keys_of, measures_of, show
from freshet.web.engine import Look
from freshet.web.history import ROWS, GroupHistory

FEED = 100  # changes of the raw delta feed that are kept
ROW_COUNT = "rows of the answer"  # what a chart can show for any view


@dataclass(slots=True)
class Watched:
    """`error`: why the view has ended; it is shown in the view's place until somebody closes it."""

    name: str
    sql: str
    plan: Plan
    history: GroupHistory
    rows: int = 0
    version: int = 0
    appeared: int = 0
    vanished: int = 0
    recent: deque[tuple[int, int, list[str | None], float]] = field(default_factory=lambda: deque(maxlen=FEED))
    last: Look | None = None
    error: str | None = None

    @classmethod
    def of(cls, name: str, plan: Plan) -> Watched:
        return cls(name, plan.sql, plan, GroupHistory(groups_of(plan.root), measures_of(plan.root)))

    @property
    def columns(self) -> list[dict[str, Any]]:
        keys = keys_of(self.plan.root)
        return [
            {"name": f.name, "type": str(f.type), "number": f.type.is_numeric, "key": i in keys}
            for i, f in enumerate(self.plan.root.fields)
        ]

    def count(self, version: int, delta: pa.Table) -> None:
        weights = delta.columns[-1].to_numpy()
        up, down = int(weights[weights > 0].sum()), -int(weights[weights < 0].sum())
        self.appeared, self.vanished = self.appeared + up, self.vanished + down
        self.rows, self.version = self.rows + up - down, version
        now = round(time.time(), 3)
        self.recent.extend((version, w, row, now) for w, row in delta_rows(delta, FEED // 2))

    def seen(self, look: Look, window: Window, chart: dict[str, Any], changes: Counter[str]) -> dict[str, Any]:
        """The view as a page shows it; `changes`: those of each table so far."""
        shown = show(look.table, window)
        measures = measures_of(self.plan.root)
        wanted = str(chart.get("measure") or "")
        names = [f.name for f in self.plan.root.fields]
        measure = (
            names.index(wanted) if wanted in names else ROWS if wanted == ROW_COUNT or not measures else measures[0]
        )
        k = chart.get("k")
        count = min(max(1, k), 20) if isinstance(k, int) else 10
        return {
            "view": self.name,
            "version": look.version,
            "total": self.rows,
            "whole": look.whole,
            "looked_at": look.table.num_rows,
            "matching": shown.matching,
            "page": shown.page,
            "size": shown.size,
            "rows": shown.rows,
            "columns": self.columns,
            "measures": [*(names[m] for m in measures), ROW_COUNT],
            "measure": ROW_COUNT if measure == ROWS else names[measure],
            "samples": self.history.taken,
            "chart": self.history.chart(measure, count, chart.get("largest") is not False),
            "appeared": self.appeared,
            "vanished": self.vanished,
            "recent": list(self.recent)[-FEED:],
            "plan": _counted(look.plan, changes),
        }


def _counted(described: dict[str, Any], changes: Counter[str]) -> dict[str, Any]:
    """The explained plan, with the number of changes of each node's table."""
    tree = [
        {**n, "changes": changes[n["table"].lower()]} if n["table"] is not None else n
        for n in described.get("tree", ())
    ]
    below = {name: _counted(each, changes) for name, each in described["inputs"].items()}
    return {**described, **({"tree": tree} if "tree" in described else {}), "inputs": below}
