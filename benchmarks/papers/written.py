"""Results as files: a CSV and an SVG for each figure, a page for each experiment with its tables and verdicts, and an
index page with links and all verdicts."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib

from benchmarks.measure import markdown
from benchmarks.papers.harness import Cell, Result

matplotlib.use("svg")
from matplotlib import pyplot as plt  # after the choice of the backend
from matplotlib.axes import Axes

JUDGED = ("- holds: ", "- does not hold: ")
plt.rcParams |= {"svg.hashsalt": "freshet", "svg.fonttype": "none"}  # equal pictures are equal, small files


def write(experiment: str, results: Sequence[Result], folder: Path, heading: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    page = [f"# {experiment}", heading]
    for result in results:
        _csv(result, folder / f"{result.name}.csv")
        _svg(result, folder / f"{result.name}.svg")
        page += [f"## {result.title}", f"![{result.title}]({result.name}.svg)", table(result)]
        page += ["\n".join(verdicts(result))] if result.verdicts else []
    (folder / f"{experiment}.md").write_text("\n\n".join(page) + "\n")


def index(experiments: Iterable[str], folder: Path, heading: str) -> None:
    """The index page, over the results of all runs so far."""
    page = [heading]
    for experiment in experiments:
        written = folder / f"{experiment}.md"
        if written.exists():
            lines = written.read_text().splitlines()
            figures = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
            judged = [line for line in lines if line.startswith(tuple(JUDGED))]
            page.append("\n".join([f"[{experiment}]({experiment}.md): {'; '.join(figures)}", *judged]))
    (folder / "README.md").write_text("\n\n".join(page) + "\n")


def table(result: Result) -> str:
    header = list(result.rows[0])
    return markdown(header, [[_shown(row[c]) for c in header] for row in result.rows])


def verdicts(result: Result) -> list[str]:
    return [f"{JUDGED[not v.held]}{v.text}" for v in result.verdicts]


def _shown(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        if not math.isfinite(value):
            return "too long"
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value


def _csv(result: Result, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(result.rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(result.rows)


def _svg(result: Result, path: Path) -> None:
    plot = result.plot
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    names = list(dict.fromkeys(row[plot.series] for row in result.rows)) if plot.series else [None]
    places: list[Cell] = list(dict.fromkeys(row[plot.x] for row in result.rows))
    for i, name in enumerate(names):
        rows = [row for row in result.rows if name is None or row[plot.series] == name]
        kept = [(row[plot.x], y) for row in rows if (y := _finite(row[plot.y])) is not None]
        label = None if name is None else str(name)
        if plot.bars:
            width = 0.8 / len(names)
            axes.bar([places.index(x) + width * i for x, _ in kept], [y for _, y in kept], width, label=label)
        else:
            axes.plot([_finite(x) or 0.0 for x, _ in kept], [y for _, y in kept], marker="o", label=label)
    if plot.bars:
        middles = [place + 0.4 - 0.4 / len(names) for place in range(len(places))]
        axes.set_xticks(middles, [str(p) for p in places], rotation=40, ha="right", rotation_mode="anchor", fontsize=8)
    _scales(axes, plot.log)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.set_title(result.title, fontsize=10)
    if len(names) > 1:
        axes.legend(title=plot.series, fontsize=8, title_fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _scales(axes: Axes, log: str) -> None:
    if "x" in log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    if "y" in log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.tick_params(axis="y", which="minor", labelsize=7)
    else:
        axes.set_ylim(bottom=0)


def _finite(value: Cell) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
