"""One module per experiment; each has `run(size)`, which returns its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.papers.figures import (
    aju_enclosure,
    aju_queries,
    aju_scale,
    crown_enclosure,
    crown_queries,
    crown_range,
    crown_scale,
    crown_selectivity,
    fifo,
    iedyn_enumeration,
    iedyn_scale,
    iedyn_selectivity,
    iedyn_streams,
    iedyn_structures,
    parallelism,
    twins,
)
from benchmarks.papers.harness import Result, Size

EXPERIMENTS: dict[str, Callable[[Size], Iterator[Result]]] = {
    "aju-queries": aju_queries.run,
    "aju-scale": aju_scale.run,
    "aju-enclosure": aju_enclosure.run,
    "crown-queries": crown_queries.run,
    "crown-scale": crown_scale.run,
    "crown-enclosure": crown_enclosure.run,
    "crown-range": crown_range.run,
    "crown-selectivity": crown_selectivity.run,
    "iedyn-streams": iedyn_streams.run,
    "iedyn-enumeration": iedyn_enumeration.run,
    "iedyn-selectivity": iedyn_selectivity.run,
    "iedyn-scale": iedyn_scale.run,
    "iedyn-structures": iedyn_structures.run,
    "fifo": fifo.run,
    "parallelism": parallelism.run,
    "twins": twins.run,
}
