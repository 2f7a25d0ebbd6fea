"""IEDyn, figure 9: inequality joins whose answers are a given share of the cross product.

Values of s are in the middle. A value of r is below them with some probability, otherwise above; a value of t is above,
otherwise below. So a row of r joins all of s or none, and the share of the cross product in the answer is the product
of probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks.papers.data import inequality_tables
from benchmarks.papers.figures.crown_queries import opened
from benchmarks.papers.figures.iedyn_streams import tables_of
from benchmarks.papers.harness import Plot, Result, Size, recompute_seconds, stream_cost
from benchmarks.papers.queries import INEQUALITIES, INEQUALITY_DDL
from benchmarks.papers.sequences import inserts

BAND = 1_000_000


def selective(rows: int, share: float, names: list[str]) -> dict[str, pa.Table]:
    draw = np.random.default_rng(7)
    each = share if len(names) == 2 else share**0.5
    tables = {n: t for n, t in inequality_tables(rows, 20).items() if n in names}
    bands = {"r": ("a", 0, 2), "s": ("d", 1, 1), "t": ("g", 2, 0)}
    for name in names:
        column, joins, misses = bands[name]
        band = np.where(draw.random(rows) < each, joins, misses)
        values = pa.array(BAND * band + draw.integers(0, BAND, rows))
        tables[name] = tables[name].set_column(tables[name].column_names.index(column), column, values)
    return tables


def run(size: Size) -> Iterator[Result]:
    result = Result("iedyn-9-selectivity", "IEDyn 9: cost of an insert as less of the cross product joins",
                    Plot("share joined", "µs a change", "query", log="x"))  # fmt: skip
    for name, rows in (("q1", size.pick(4_000, 2_000, 60)), ("q4", size.pick(300, 150, 30))):
        for share in size.scales((0.0001, 0.001, 0.01, 0.1, 0.5), (0.001, 0.01, 0.1, 0.5), (0.01, 0.5)):
            tables = selective(rows, share, tables_of(INEQUALITIES[name]))
            moves = inserts(tables)
            db, view = opened(INEQUALITY_DDL, name, INEQUALITIES[name])
            cost = stream_cost(db, view, moves.transactions(1), len(moves), size)
            recomputed = recompute_seconds(INEQUALITIES[name], tables, size)
            result.rows.append({"query": name, "share joined": share, **cost.row(),
                                "ms DuckDB recomputed": round(1e3 * recomputed, 2)})  # fmt: skip
    yield result
