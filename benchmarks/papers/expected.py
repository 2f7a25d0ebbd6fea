"""Recorded steps, rows and bytes, and the verdict that they have not increased.

They depend only on data and plans, not on the machine, so they can be compared with a recording: a change of the
engine that needs 30 % more of them in any row of a table fails that table's verdict. `--record` records those of a
run; the file is reviewed like any other change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers.data import real_folder
from benchmarks.papers.harness import Cell, Result, Row, Size, Verdict

RECORDED = Path(__file__).resolve().parent / "expected.json"
STEPS = "steps a change"
COUNTS = (STEPS, "rows a change", "busiest steps", "B a tuple", "state MB")  # the columns that are recorded
MORE, LEAST = 1.3, 0.01  # the growth that fails; smaller numbers than the second are ignored


def judge(results: Sequence[Result], size: Size) -> None:
    """Adds a verdict to each figure for each recorded column of counts."""
    known = _recorded().get(_run(size), {})
    for result in results:
        for column in COUNTS:
            _judge(result, column, known.get(_key(result, column)))


def _judge(result: Result, column: str, expected: list[float | None] | None) -> None:
    counts = _counts(result, column)
    if expected is None or not any(f is not None for f in counts):
        return
    if len(expected) != len(counts):
        result.verdicts.append(Verdict(f"{column}: recorded for different rows; record them again", False))
        return
    ratios = [
        (f / max(e, LEAST), f, e, row)
        for f, e, row in zip(counts, expected, result.rows, strict=True)
        if f is not None and e is not None
    ]
    if ratios:
        worst, f, e, row = max(ratios, key=lambda r: r[0])
        where = f"{_named(row)}: {f:g} after {e:g}; fails at {MORE}"
        text = f"{column}: at most {worst:.2f} times those recorded ({where})"
        result.verdicts.append(Verdict(text, worst < MORE))


def record(results: Sequence[Result], size: Size) -> None:
    known = _recorded()
    for result in results:
        for column in COUNTS:
            counts = _counts(result, column)
            if any(f is not None for f in counts):
                known.setdefault(_run(size), {})[_key(result, column)] = counts
    lines = json.dumps({run: dict(sorted(of.items())) for run, of in sorted(known.items())}, indent=1)
    RECORDED.write_text(lines.replace(",\n   ", ", ").replace("[\n   ", "[").replace("\n  ]", "]") + "\n")


def _key(result: Result, column: str) -> str:
    return result.name if column == STEPS else f"{result.name}, {column}"


def _counts(result: Result, column: str) -> list[float | None]:
    return [_count(row, column) for row in result.rows]


def _run(size: Size) -> str:
    return f"{size.name}, real data" if real_folder() else size.name


def _count(row: Row, column: str) -> float | None:
    """None if a stream did not end in time, and so depends on the machine."""
    value: Cell = row.get(column)
    return float(value) if isinstance(value, (int, float)) and row.get("done", 1) == 1 else None


def _named(row: Row) -> str:
    return ", ".join(str(v) for v in list(row.values())[:2])


def _recorded() -> dict[str, dict[str, list[float | None]]]:
    recorded: dict[str, dict[str, list[float | None]]] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    return recorded
