"""All 99 queries of TPC-DS: each is kept and equals DuckDB's answer after every transaction."""

from __future__ import annotations

import pytest

from tests.tpcds.run import follow
from tests.tpcds.texts import NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_query_follows_its_tables(number: int) -> None:
    follow(number, transactions=2, seed=2)


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_query_follows_its_tables_for_long(number: int) -> None:
    assert sum(rows > 0 for rows in follow(number, transactions=60, seed=1)) > 2, "empty answers show nothing"
