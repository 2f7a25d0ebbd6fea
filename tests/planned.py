"""How the queries of known benchmarks are planned: the tables of docs/benchmark-queries.md.

`python -m tests.planned` writes them again, if plans are meant to change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import freshet
from freshet.logical.query import Sorted
from freshet.plans.claims import claim
from freshet.plans.model import AnyPlan, QueryPlan, inputs
from tests.nexmark.events import TABLES
from tests.nexmark.queries import QUERIES
from tests.tpcds.texts import NUMBERS, columns_of, ddl, official

PAGE = Path(__file__).parent.parent / "docs" / "benchmark-queries.md"
_COSTS = ("1", "λ", "λ_T", "n")
_COLUMNS = ("selects", "other operators", "a change costs")


def tables() -> dict[str, str]:
    """The table of each section of the page."""
    tpcds = {str(n): (official(n), "; ".join(ddl(columns_of(n)))) for n in NUMBERS}
    events = "; ".join(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items())
    nexmark = {f"q{n} | {what}": (sql, events) for n, (what, sql) in QUERIES.items()}
    return {"TPC-DS": _table(("query",), tpcds), "Nexmark": _table(("query", "what it shows"), nexmark)}


def _table(first: tuple[str, ...], queries: dict[str, tuple[str, str]]) -> str:
    columns = (*first, *_COLUMNS)
    lines = [" | ".join(columns), "|".join("---" for _ in columns)]
    lines += [f"{name} | {_planned(*query)}" for name, query in queries.items()]
    return "\n".join(f"| {line} |" if " " in line else f"|{line}|" for line in lines)


def _planned(sql: str, schema: str) -> str:
    plans = {id(p): p for p in _parts(freshet.plan(sql, schema).root)}.values()  # what several parts read is kept once
    selects = [p.guarantee.query_class for p in plans if isinstance(p, QueryPlan)]
    others = [str(p.guarantee.query_class) for p in plans if not isinstance(p, (QueryPlan, Sorted))]
    worst = max((claim(p).every_stream for p in plans), key=_COSTS.index)
    return f"{_counted(selects)} | {_counted(others)} | O({worst})"


def _parts(plan: AnyPlan) -> Iterator[AnyPlan]:
    yield plan
    for _, below in inputs(plan):
        yield from _parts(below)


def _counted(words: list[str]) -> str:
    return ", ".join(f"{n} {word}" if n > 1 else word for word, n in Counter(words).items()) or "none"


def page_with(page: str, made: dict[str, str]) -> str:
    """The page with these tables in its sections."""
    for section, table in made.items():
        pattern = rf"(?<=^## {section}\n)(.*?)(?:^\|[^\n]*\n)+"
        page = re.sub(pattern, rf"\1{table}\n", page, count=1, flags=re.DOTALL | re.MULTILINE)
    return page


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(), tables()))
