"""Whether a view's answer equals DuckDB's answer to the same query over the same rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RELATIVE, ABSOLUTE = 1e-9, 1e-5  # columns that are decimals here and doubles in DuckDB: averages and quotients


def ties_broken(query: str, columns: Sequence[str]) -> str:
    """Adds the selected columns to the order before LIMIT, as Freshet does."""
    further = "".join(f", {c} ASC NULLS FIRST" for c in columns if c.isidentifier())
    return re.sub(r"(\s+LIMIT \d+)$", rf"{further}\1", query)


def differing_rows(answer: pa.Table, sql: str, tables: dict[str, pa.Table]) -> int:
    """The number of surplus and missing rows of the answer, compared as bags; 0 means they agree."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        expected = connection.execute(ties_broken(sql, answer.column_names)).to_arrow_table()
        connection.register("answer", answer)
        connection.register("expected", expected)
        rough = [i for i in range(answer.num_columns) if pa.types.is_floating(expected.schema.field(i).type)]
        if rough:
            return _differing_roughly(answer, expected, rough)
        differing = connection.execute(
            "SELECT count(*) FROM ((FROM answer EXCEPT ALL FROM expected) UNION ALL"
            " (FROM expected EXCEPT ALL FROM answer))"
        ).fetchone()
    assert differing is not None
    return int(differing[0])


def _differing_roughly(answer: pa.Table, expected: pa.Table, rough: list[int]) -> int:
    """The same if some columns are doubles: sorted rows are compared one by one, doubles within a tolerance."""
    if answer.num_rows != expected.num_rows:
        return int(abs(answer.num_rows - expected.num_rows))
    names = [f"c{i}" for i in range(answer.num_columns)]
    order = [(n, "ascending") for i, n in enumerate(names) if i not in rough]
    order += [(names[i], "ascending") for i in rough]
    sides = []
    for table in (answer, expected):
        columns = [
            pc.cast(c, pa.float64()) if i in rough else c.cast(expected.schema.field(i).type)
            for i, c in enumerate(table.columns)
        ]
        sides.append(pa.table(columns, names=names).sort_by(order))
    wrong = np.zeros(answer.num_rows, np.bool_)
    for i, name in enumerate(names):
        mine, theirs = (side[name].to_numpy() for side in sides)
        if i in rough:
            wrong |= ~np.isclose(mine, theirs, RELATIVE, ABSOLUTE, equal_nan=True)
        else:
            wrong |= np.fromiter((a != b for a, b in zip(mine, theirs, strict=True)), np.bool_, len(mine))
    return int(wrong.sum())
