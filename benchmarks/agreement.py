"""Whether a view's answer is the one DuckDB gives to the same query over the same rows."""

from __future__ import annotations

import duckdb
import pyarrow as pa


def differing_rows(answer: pa.Table, sql: str, tables: dict[str, pa.Table]) -> int:
    """How many rows the answer has too many or too few of, compared as bags; 0 means they agree."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        connection.register("answer", answer)
        connection.execute(f"CREATE TABLE expected AS {sql}")
        differing = connection.execute(
            "SELECT count(*) FROM ((FROM answer EXCEPT ALL FROM expected) UNION ALL"
            " (FROM expected EXCEPT ALL FROM answer))"
        ).fetchone()
    assert differing is not None
    return int(differing[0])
