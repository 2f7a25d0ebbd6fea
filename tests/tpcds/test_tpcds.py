"""All 99 queries of TPC-DS: each is kept and equals DuckDB's answer after every transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tpcds.run import follow, table
from tests.tpcds.texts import NUMBERS

PAGE = Path(__file__).parents[2] / "docs" / "benchmark-queries.md"


@pytest.mark.parametrize("number", NUMBERS)
def test_query_follows_its_tables(number: int) -> None:
    follow(number, transactions=2, seed=2)


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_query_follows_its_tables_for_long(number: int) -> None:
    assert sum(rows > 0 for rows in follow(number, transactions=60, seed=1)) > 2, "empty answers show nothing"


def test_the_table_of_the_docs() -> None:
    """If plans are meant to change, `python -m tests.tpcds.run --table` prints the table again."""
    assert "\n".join(table()) in PAGE.read_text()
