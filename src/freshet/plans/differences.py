"""Describes how the tables and views that state was built with differ from those it is to be used with.

Both are given as JSON: a table by its columns, its primary key and the source of its rows, a view by its text, its
bound query and its plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from freshet.logical.query import TableSchema
from freshet.plans import Plan, codec
from freshet.plans.document import to_document
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query

Described = Mapping[str, Any]


def describe_table(schema: TableSchema, **where: Any) -> dict[str, Any]:
    """`where`: the parts that describe the source of its rows."""
    columns = {f.name: f"{f.type}{'' if f.nullable else ' NOT NULL'}" for f in schema.fields}
    by_time = {
        word: f"{rule.size} microseconds by {schema.fields[rule.column].name}"
        for word, rule in (("retain", schema.retention), ("lateness", schema.lateness))
        if rule is not None
    }
    return {"columns": columns, "primary key": [schema.fields[i].name for i in schema.primary_key], **by_time, **where}


def describe_view(plan: Plan, catalog: Catalog | None) -> dict[str, Any]:
    query = None if catalog is None else codec.encode(bind_query(plan.sql, catalog))
    return {"sql": plan.sql, "query": query, "plan": json.loads(codec.to_json(plan))}


def named(
    kind: str, kept: Described, now: Described, differs: Callable[[Described, Described], Iterator[str]]
) -> Iterator[str]:
    """The differences between two sets of tables, or of views, by name."""
    for name in kept.keys() - now.keys():
        yield f"{kind} {name}: removed"
    for name in now.keys() - kept.keys():
        yield f"{kind} {name}: added"
    for name in kept.keys() & now.keys():
        yield from (f"{kind} {name}: {what}" for what in differs(kept[name], now[name]))


def table_differs(kept: Described, now: Described) -> Iterator[str]:
    columns = (kept.get("columns", {}), now.get("columns", {}))
    for name in {**columns[0], **columns[1]}:
        if columns[0].get(name) != columns[1].get(name):
            yield f"column {name} was {columns[0].get(name, 'absent')}, is {columns[1].get(name, 'removed')}"
    for part in ({**kept, **now}).keys() - {"columns"}:
        if kept.get(part) != now.get(part):
            yield f"{part} was {kept.get(part)}, is {now.get(part)}"


def view_differs(kept: Described, now: Described) -> Iterator[str]:
    same = kept["query"] is not None and kept["query"] == now["query"]
    if not same and _flat(kept["sql"]) != _flat(now["sql"]):  # else a table differs
        yield f"its query was\n    {_flat(kept['sql'])}\n  and is\n    {_flat(now['sql'])}"


def plans_differ(kept: Described, now: Described, given: Collection[str]) -> Iterator[str]:
    """The differences between the plans of views that were defined with a plan."""
    for name in given:
        then, here = (codec.from_json(json.dumps(views[name]["plan"])) for views in (kept, now))
        if then != here:
            yield f"view {name}: its tree was {_drawn(then)}, and is {_drawn(here)}"


def _flat(sql: str) -> str:
    return " ".join(sql.split())


def _drawn(plan: Plan) -> str:
    trees = to_document(plan.sql, plan.root)["trees"]
    shown = ("; ".join(f"{n['node']} on {n['parent'] or 'top'}" for n in t["nodes"]) for t in trees)
    shares = [f"shares {t['shares']}" for t in trees if t["shares"]]
    return ", ".join([*shown, *shares])
