"""What a checkpoint was made by, kept in it, so that another job is refused with what differs.

Law: state is only ever continued by the plan that made it. The plans themselves are kept too, and a job that asks for
the same views of the same tables goes on with them, also when a newer Freshet would plan otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from freshet.errors import StateError
from freshet.job.file import JobFile, Place
from freshet.plans import Plan, codec
from freshet.plans.document import to_document
from freshet.sql.parse import bind_query
from freshet.version import __version__

RECORD = "freshet-job.json"
FORMAT = 1
_WHERE = ("path", "subscribe", "subscribepattern", "assign", "changes", "sequence")


def record(job: JobFile, plans: Mapping[str, Plan], shards: int) -> str:
    """The job as the checkpoint keeps it."""
    described = {
        "format": FORMAT,
        "freshet": __version__,
        "shards": shards,
        "on_error": job.settings.get("on_error", "stop"),
        "tables": {s.schema.name: _table(job, s.schema, s.place) for s in job.sources.values()},
        "views": {
            name: {
                "sql": plan.sql,
                "query": codec.encode(bind_query(plan.sql, job.catalog)),
                "plan": json.loads(codec.to_json(plan)),
            }
            for name, plan in plans.items()
        },
        "copies": {
            s.name: {"view": s.view, **_place(job, s.place)} for s in job.sinks if s.place.format == "materialized"
        },
    }
    return json.dumps(described, indent=1, ensure_ascii=False)


def _table(job: JobFile, schema: Any, place: Place) -> dict[str, Any]:
    columns = {f.name: f"{f.type}{'' if f.nullable else ' NOT NULL'}" for f in schema.fields}
    key = [schema.fields[i].name for i in schema.primary_key]
    return {"columns": columns, "primary key": key, **_place(job, place)}


def _place(job: JobFile, place: Place) -> dict[str, Any]:
    options = {k.lower(): v for k, v in place.options.items() if k.lower() in (*_WHERE, "url", "table")}
    if "path" in options:
        options["path"] = str(job.path(place))
    return {"using": place.format, **options}


def continued(text: str, now: str, where: str, given: Collection[str] = ()) -> dict[str, Plan]:
    """The plans a checkpoint goes on with; StateError, saying what differs, if the job is another. Views in `given`
    were asked for with a plan of their own, which must be the one kept."""
    try:
        kept, job = json.loads(text), json.loads(now)
        if kept["format"] != FORMAT:
            raise ValueError(f"format {kept['format']}")
    except (ValueError, KeyError, TypeError) as e:
        raise StateError(f"{where}/{RECORD} cannot be read ({e}); use a new checkpoint folder") from None
    differing = list(_differing(kept, job))
    if not differing:
        differing += [f"view {name}: {what}" for name in given for what in _plan_differs(kept, job, name)]
    if differing:
        listed = "\n  ".join(differing)
        raise StateError(
            f"the checkpoint {where} was made by another job:\n  {listed}\n"
            "put the job back as it was, or start anew with another checkpoint folder"
        )
    return {name: codec.from_json(json.dumps(view["plan"])) for name, view in kept["views"].items()}


def _differing(kept: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    for part in ("shards", "on_error"):
        if kept[part] != now[part]:
            yield f"{part}: {kept[part]} then, {now[part]} now"
    yield from _named("table", kept["tables"], now["tables"], _table_differs)
    yield from _named("view", kept["views"], now["views"], _view_differs)
    yield from _named("sink", kept["copies"], now["copies"], _table_differs)


def _named(kind: str, kept: dict[str, Any], now: dict[str, Any], differs: Any) -> Iterator[str]:
    for name in kept.keys() - now.keys():
        yield f"{kind} {name}: there then, gone now"
    for name in now.keys() - kept.keys():
        yield f"{kind} {name}: new"
    for name in kept.keys() & now.keys():
        yield from (f"{kind} {name}: {what}" for what in differs(kept[name], now[name]))


def _table_differs(kept: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    columns = (kept.get("columns", {}), now.get("columns", {}))
    for name in {**columns[0], **columns[1]}:
        if columns[0].get(name) != columns[1].get(name):
            yield f"column {name} was {columns[0].get(name, 'not there')}, is {columns[1].get(name, 'gone')}"
    for part in ({**kept, **now}).keys() - {"columns"}:
        if kept.get(part) != now.get(part):
            yield f"{part} was {kept.get(part)}, is {now.get(part)}"


def _view_differs(kept: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    if kept["query"] != now["query"] and _flat(kept["sql"]) != _flat(now["sql"]):  # else a table differs
        yield f"its query was\n    {_flat(kept['sql'])}\n  and is\n    {_flat(now['sql'])}"


def _flat(sql: str) -> str:
    return " ".join(sql.split())


def _plan_differs(kept: dict[str, Any], now: dict[str, Any], name: str) -> Iterator[str]:
    then, here = (codec.from_json(json.dumps(d["views"][name]["plan"])) for d in (kept, now))
    if then != here:
        yield f"its tree was {_drawn(then)}, and is {_drawn(here)}"


def _drawn(plan: Plan) -> str:
    trees = to_document(plan.sql, plan.root)["trees"]
    shown = ("; ".join(f"{n['node']} on {n['parent'] or 'top'}" for n in t["nodes"]) for t in trees)
    shares = [f"shares {t['shares']}" for t in trees if t["shares"]]
    return ", ".join([*shown, *shares])
