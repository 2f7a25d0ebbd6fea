"""The history of a view's numbers: samples over time, for the chart.

A sample holds every group of a small answer; of a larger one, for each number, the groups with the greatest and with
the least. So a chart of the top or bottom k groups is exact at each moment for them, and its memory is bounded. When
there are too many samples every other one of the older half is dropped: the far past gets coarser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from freshet.web.answer import texts

MOST_SAMPLES = 600
WHOLE = 200  # answers up to this size are kept whole
EXTREMES = 25
ROWS = -1  # represents the number of rows among the columns

Group = tuple[str | None, ...]


@dataclass(slots=True)
class Sample:
    at: float  # seconds since the epoch
    values: dict[Group, list[float | None]]  # a value for each number
    whole: bool
    rows: int  # of the whole answer


@dataclass(slots=True)
class GroupHistory:
    """`keys` name a group, `measures` are its numbers; columns of the answer."""

    keys: Sequence[int]
    measures: Sequence[int]
    samples: list[Sample] = field(default_factory=list)
    taken: int = 0

    def take(self, at: float, answer: pa.Table, rows: int) -> None:
        whole = answer.num_rows <= WHOLE
        part = answer if whole else self._extremes(answer) if self.measures else answer.slice(0, 0)
        named = [texts(part.column(k)) for k in self.keys]
        groups: list[Group] = list(zip(*named, strict=True)) if named else [()] * part.num_rows
        numbers = [_finite(part.column(m).cast(pa.float64(), safe=False)) for m in self.measures]
        values = dict(zip(groups, map(list, zip(*numbers, strict=True)), strict=True)) if numbers else {}
        self.samples.append(Sample(at, values, whole, rows))
        self.taken += 1
        if len(self.samples) > MOST_SAMPLES:
            half = len(self.samples) // 2
            self.samples = self.samples[:half:2] + self.samples[half:]

    def _extremes(self, answer: pa.Table) -> pa.Table:
        places = []
        for m in self.measures:
            numbers = pa.table({"number": answer.column(m)})  # by position: names may repeat
            places += [
                pc.select_k_unstable(numbers, EXTREMES, [("number", order)]) for order in ("descending", "ascending")
            ]
        return answer.take(pc.unique(pa.concat_arrays(places)))

    def chart(self, measure: int, k: int, largest: bool) -> dict[str, Any]:
        """One number over time, for the k groups where it is greatest (or least) now; groups that no longer exist come
        after existing ones, the last seen first."""
        times = [round(s.at, 3) for s in self.samples]
        if measure == ROWS:
            return {"times": times, "series": [{"group": "rows", "values": [float(s.rows) for s in self.samples]}]}
        at = self.measures.index(measure) if measure in self.measures else 0
        ranked: dict[Group, None] = {}
        for sample in reversed(self.samples[-120:]):
            known = [(x, g) for g, v in sample.values.items() if g not in ranked and (x := v[at]) is not None]
            known.sort(key=lambda p: (-p[0] if largest else p[0], [n or "" for n in p[1]]))
            ranked.update(dict.fromkeys(g for _, g in known))
            if len(ranked) >= k:
                break
        groups = list(ranked)[:k]
        series = []
        for group in groups:
            # A group that is missing from a complete sample has no rows: its counts and sums are 0.
            values = [s.values[group][at] if group in s.values else 0.0 if s.whole else None for s in self.samples]
            series.append({"group": " · ".join("NULL" if g is None else g for g in group) or "all", "values": values})
        return {"times": times, "series": series}


def _finite(numbers: pa.ChunkedArray) -> list[float | None]:
    """Numbers that a chart can draw and JSON can represent."""
    drawable: list[float | None] = pc.if_else(pc.is_finite(numbers), numbers, None).to_pylist()
    return drawable
