"""Plans as JSON and back, and the formats of older versions."""

from __future__ import annotations

import json
from typing import Any

import freshet
from freshet.plans import codec

TABLES = "CREATE TABLE t (a INT, b INT); CREATE TABLE u (a INT)"
SQL = "SELECT t.a, SUM(b) AS s FROM t JOIN u ON t.a = u.a GROUP BY t.a HAVING COUNT(*) > 1"


def as_before(value: Any) -> Any:
    """A plan as it was written when references had one class, in which relation -1 was the group's row."""
    if isinstance(value, list):
        return [as_before(v) for v in value]
    if not isinstance(value, dict):
        return value
    written = {k: as_before(v) for k, v in value.items()}
    if value.get("is") == "GroupRef":
        written |= {"is": "ColumnRef", "relation": -1}
    return written | {"outer": 0} if value.get("is") in ("ColumnRef", "GroupRef") else written


def test_a_plan_is_read_back_as_it_was() -> None:
    plan = freshet.plan(SQL, TABLES)
    assert codec.from_json(codec.to_json(plan)) == plan


def test_a_plan_of_an_older_version_is_read_as_the_same_plan() -> None:
    plan = freshet.plan(SQL, TABLES)
    older = as_before(json.loads(codec.to_json(plan)))
    assert '"relation": -1' in json.dumps(older)
    assert codec.from_json(json.dumps(older)) == plan
