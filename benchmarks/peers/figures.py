"""What was measured, as tables and plots."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from benchmarks.papers.harness import Cell, Plot, Result, Row

RATE = "changes/s of processor time"


@dataclass(frozen=True)
class Outcome:
    """One run of a peer: `problem` is empty if it reached the end of the stream."""

    problem: str
    given: dict[str, Any] = field(default_factory=dict)

    def rate(self, clock: str) -> float | None:
        if self.problem or not self.given["measured"]:
            return None
        return float(1e9 * self.given["measured"] / sum(self.given[clock]))

    def latency(self, percent: float) -> float | None:
        """Microseconds of processor time, if enough transactions were measured to say."""
        spent = self.given["processor"]
        if len(spent) * (100 - percent) < 100:
            return None
        return float(np.percentile(spent, percent)) / 1e3


def figure(name: str, title: str, cells: dict[int, list[dict[str, Outcome]]]) -> Result:
    """One query: a row for each size of transaction and peer."""
    result = Result(f"peers-{name.replace('_', '-')}", title, Plot("changes a transaction", RATE, "peer", log="xy"))
    for changes, runs in cells.items():
        for peer in runs[0]:
            result.rows.append(_row(changes, peer, runs))
    return result


def _row(changes: int, peer: str, runs: list[dict[str, Outcome]]) -> Row:
    outcomes = [run[peer] for run in runs]
    row: Row = {"peer": peer, "changes a transaction": changes}
    problems = {outcome.problem for outcome in outcomes} - {""}
    if problems:
        blank: dict[str, Cell] = dict.fromkeys(
            (RATE, "from", "to", "of wall time", "Freshet is", "p50 µs", "p99 µs", "p99.9 µs", "MB", "MB empty")
        )
        return {**row, **blank, "measured": ", ".join(sorted(problems))}
    rates = sorted((outcome.rate("processor") or 0.0, i) for i, outcome in enumerate(outcomes))
    middle = outcomes[rates[len(rates) // 2][1]]
    return {
        **row,
        RATE: round(rates[len(rates) // 2][0]),
        "from": round(rates[0][0]),
        "to": round(rates[-1][0]),
        "of wall time": round(median(outcome.rate("wall") or 0.0 for outcome in outcomes)),
        "Freshet is": _times(runs, peer),
        "p50 µs": _rounded(middle.latency(50)),
        "p99 µs": _rounded(middle.latency(99)),
        "p99.9 µs": _rounded(middle.latency(99.9)),
        "MB": round(max(outcome.given["resident"] for outcome in outcomes) / 1e6),
        "MB empty": round(max(outcome.given["empty"] for outcome in outcomes) / 1e6),
        "measured": f"{middle.given['measured']:,}",
    }


def _times(runs: list[dict[str, Outcome]], peer: str) -> str:
    """How many times Freshet is faster than the peer, in the same repetition; below 1, the peer is faster."""
    ratios = [
        ours / theirs
        for run in runs
        if "freshet" in run
        and (ours := run["freshet"].rate("processor")) is not None
        and (theirs := run[peer].rate("processor")) is not None
    ]
    return f"{median(ratios):.2f} ×" if ratios and peer != "freshet" else ""


def _rounded(value: float | None) -> Cell:
    return None if value is None else round(value, 1) if value < 100 else round(value)


def summary(experiment: str, results: list[Result]) -> Result:
    """All queries in one table: changes per second of processor time, and in how many cells Freshet is ahead."""
    peers = list(dict.fromkeys(row["peer"] for result in results for row in result.rows))
    rows: list[Row] = []
    for result in results:
        for changes in dict.fromkeys(row["changes a transaction"] for row in result.rows):
            cells = {row["peer"]: row for row in result.rows if row["changes a transaction"] == changes}
            row: Row = {"query": result.title, "changes a transaction": changes}
            row |= {str(peer): cells[peer][RATE] or cells[peer]["measured"] for peer in peers}
            rates = {str(peer): v for peer in peers if isinstance(v := cells[peer][RATE], (int, float))}
            row["fastest"] = max(rates, key=lambda peer: rates[peer], default="")
            rows.append(row)
    shown = Result(
        f"{experiment}-all",
        f"All queries: {RATE}",
        Plot("query", "freshet", "changes a transaction", bars=True, log="y"),
    )
    shown.rows = rows
    return shown
