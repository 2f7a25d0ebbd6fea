"""Text in, plan out: each file in fixtures/ has tables, a query, a line of dashes, and the plan as `explain` shows it.

If a plan is meant to change, FRESHET_FIXTURES=write writes the files again; the changes are then reviewed in the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from freshet.plans import build_plan
from freshet.plans.explain import explain
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.plan"))
LINE = "-" * 20


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
def test_a_query_has_the_plan_that_is_written_below_it(path: Path) -> None:
    text, _, wanted = path.read_text().partition(f"\n{LINE}\n")
    ddl, _, sql = text.strip().removesuffix(";").rpartition(";")
    plan = explain(build_plan(bind_query(sql, Catalog.from_ddl(ddl))))
    if os.environ.get("FRESHET_FIXTURES") == "write":
        path.write_text(f"{text}\n{LINE}\n{plan}\n")
    else:
        assert plan == wanted.rstrip("\n")


def test_there_are_fixtures_and_each_is_of_another_kind() -> None:
    plans = [p.read_text().partition(LINE)[2] for p in FIXTURES]
    assert len(plans) >= 20
    assert len(set(plans)) == len(plans)
