"""Reads the notes that the shards of a query on Spark write as they work: the sizes of their join trees, their cost,
and how the time of a micro-batch was spent. The driver writes a note that lists the levels.

Every worker process appends lines to a file of its own (`spark/profile.py`). Each line is read once; a file that has
grown large is truncated, since lines are not needed once read. On a cluster whose workers are other machines there are
no notes, and the page shows the figures of Spark itself.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from freshet.database.metrics import MINUTE
from freshet.plans.explain import Standing
from freshet.plans.model import AnyPlan, QueryPlan, inputs

LARGE = 4 << 20

#: Steps of Freshet within a micro-batch, in words, and the fields of the notes that hold their seconds.
STEPS = {
    "encode rows": ("seconds",),
    "read blocks, open state": ("reading", "opening"),
    "maintain": ("engine",),
    "emit changes": ("telling",),
    "write the log": ("logging",),
}

#: Those of them that are measured in shards.
WITHIN = tuple(STEPS)[1:]

Tree = list[tuple[str, int, int]]  # alias, tuples and alive tuples of each node


class ShardNotes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read_to: dict[Path, int] = {}
        self.trees: dict[tuple[int, int], dict[int, Tree]] = {}  # by operator and place within it, of each shard
        self.tables: Counter[str] = Counter()  # changed rows that were read, by table
        self.counted = 0
        self.recent: list[tuple[float, int, int]] = []  # when, counters changed, rows read
        self.steps: Counter[str] = Counter()  # seconds since they were last asked for
        self.job: dict[str, Any] = {}  # levels with their operators and streams, as `dataflow` describes a job
        self.encoded: dict[str, dict[str, Any]] = {}  # by table, what was last read of it, all partitions added up
        self._of_this_read: set[str] = set()
        self.shards: dict[tuple[int, int], dict[str, Any]] = {}  # by level and shard, its last transaction

    def read(self) -> None:
        """Reads the notes written since the last call, in order of time: no process waits for another's file."""
        self._of_this_read.clear()
        news = []
        for path in sorted(self.folder.glob("*.jsonl")):
            begin = self.read_to.get(path, 0)
            with path.open("rb") as file:
                file.seek(begin)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]  # the last line may be incomplete
            self.read_to[path] = begin + len(whole)
            news += [json.loads(line) for line in whole.splitlines()]
            if self.read_to[path] > LARGE:
                os.truncate(path, 0)
                self.read_to[path] = 0
        for note in sorted(news, key=lambda n: float(n["at"])):
            self._take(note)

    def _take(self, note: dict[str, Any]) -> None:
        step = note["step"]
        if step == "encode":
            self.tables[note["table"]] += note["rows"]
            self.recent.append((note["at"], 0, note["rows"]))
            self._encode(note["table"], note["rows"], note["seconds"])
        elif step == "job":
            self.job = note["dataflow"]
            self.encoded.clear()
            self.shards.clear()
        elif step == "level":
            spent = {name: _milliseconds(*(note[f] for f in STEPS[name])) for name in WITHIN}
            self.shards[note["level"], note["shard"]] = {"shard": note["shard"], "rows": note["rows"], "ms": spent}
        elif step == "nodes":
            self.counted += note["counted"]
            self.recent.append((note["at"], note["counted"], 0))
            for operator, trees in note["trees"].items():
                for place, tree in enumerate(trees):
                    at = (int(operator.lstrip("#")), place)
                    self.trees.setdefault(at, {})[note["shard"]] = [(a, t, alive) for a, t, alive in tree]
        for name, fields in STEPS.items():
            if step in ("encode", "level"):
                self.steps[name] += sum(note.get(f, 0.0) for f in fields)

    def _encode(self, table: str, rows: int, seconds: float) -> None:
        if table not in self._of_this_read:
            self._of_this_read.add(table)
            self.encoded[table] = {"rows": 0, "ms": 0.0}
        self.encoded[table]["rows"] += rows
        self.encoded[table]["ms"] = round(self.encoded[table]["ms"] + _milliseconds(seconds), 1)

    def spent(self, batches: int) -> dict[str, int]:
        """Milliseconds for each step and micro-batch since the last call, which was `batches` micro-batches ago; summed
        over all cores."""
        found = {name: round(1000 * self.steps[name] / batches) for name in STEPS if self.steps[name]}
        self.steps.clear()
        return found

    def dataflow(self) -> dict[str, Any] | None:
        """Tables, levels and shards, each with the time of the last micro-batch in which it had changes."""
        if not self.job:
            return None
        levels = [
            {**level, "shards": [self.shards[at] for at in sorted(self.shards) if at[0] == number]}
            for number, level in enumerate(self.job["levels"])
        ]
        tables = [{"name": name, "all": self.tables[name], **self.encoded[name]} for name in sorted(self.encoded)]
        return {"shards": self.job["shards"], "tables": tables, "levels": levels}

    def paid(self) -> dict[str, float | None]:
        """Counters changed for each row read, so far and in the last minute."""
        now = time.time()
        self.recent = [note for note in self.recent if now - note[0] <= MINUTE]
        recent = [sum(part) for part in zip(*((c, r) for _, c, r in self.recent), strict=True)] or [0, 0]
        total = (self.counted, self.tables.total())
        return {
            "counters_per_change": round(total[0] / total[1], 3) if total[1] else None,
            "counters_per_change_minute": round(recent[0] / recent[1], 3) if recent[1] else None,
        }

    @property
    def tuples(self) -> int:
        return sum(n for shards in self.trees.values() for tree in shards.values() for _, n, _ in tree)

    def standings(self, plans: Sequence[AnyPlan]) -> list[Standing]:
        """The number of tuples in the trees of each plan over all shards; a tuple that was copied to several shards
        counts in each.

        Operators are numbered as their plans are met, a plan's inputs before itself, and keep the nodes of their plan:
        so trees and operators are matched in order, by the names of their nodes. Operators that only add up the results
        of shards have no plan of their own and are skipped.
        """
        held = [_sum(list(self.trees[at].values())) for at in sorted(self.trees)]
        return [_standing(plan, held) for plan in plans]

    def forget(self) -> None:
        """Called when another query begins: the remaining notes of the last one do not apply to its trees."""
        self.read()
        self.trees.clear()


def _milliseconds(*seconds: float) -> float:
    return round(1000 * sum(seconds), 1)


def _sum(trees: Sequence[Tree]) -> Tree:
    return [
        (nodes[0][0], sum(n[1] for n in nodes), sum(n[2] for n in nodes)) for nodes in zip(*trees, strict=True)
    ]  # fmt: skip


def _standing(plan: AnyPlan, held: list[Tree]) -> Standing:
    below = [_standing(inner, held) for _, inner in inputs(plan)]
    if isinstance(plan, QueryPlan):
        wanted = [plan.relations[node.relation].alias for node in plan.nodes]
        for i, tree in enumerate(held):
            if [name for name, _, _ in tree] == wanted:
                del held[: i + 1]
                return Standing([(tuples, alive) for _, tuples, alive in tree], below)
    return Standing((), below)
