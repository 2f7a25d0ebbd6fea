"""The docs say how each query of the benchmarks is planned."""

from __future__ import annotations

from tests.planned import PAGE, page_with, tables


def test_the_tables_of_the_docs() -> None:
    page, made = PAGE.read_text(), tables()
    assert all(table in page for table in made.values()), "python -m tests.planned writes them again"
    assert page_with(page, made) == page
