"""Records in a checkpoint which job created it, so that another job is refused with a list of the differences.

Law: state is continued only by the plan that created it. The plans themselves are stored too, and a job with the same
views over the same tables continues with them, even if a newer Freshet would choose other plans.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from freshet.errors import StateError
from freshet.job.file import Endpoint, JobFile
from freshet.job.secrets import described
from freshet.plans import Plan, codec
from freshet.plans.differences import describe_table, describe_view, named, plans_differ, table_differs, view_differs
from freshet.version import __version__

RECORD = "freshet-job.json"
FORMAT = 1
_WHERE = ("path", "subscribe", "subscribepattern", "assign", "changes", "sequence")


def record(job: JobFile, plans: Mapping[str, Plan], shards: int | None) -> str:
    """The job as the checkpoint stores it; `shards`: None if they are chosen by the rows there are."""
    described = {
        "format": FORMAT,
        "freshet": __version__,
        "shards": shards,
        "tables": {s.schema.name: describe_table(s.schema, **_place(job, s.place)) for s in job.sources.values()},
        "views": {name: describe_view(plan, job.catalog) for name, plan in plans.items()},
        "copies": {
            s.name: {"view": s.view, **_place(job, s.place)} for s in job.sinks if s.place.format == "materialized"
        },
    }
    return json.dumps(described, indent=1, ensure_ascii=False)


def _place(job: JobFile, place: Endpoint) -> dict[str, Any]:
    recorded = {"using": place.format}
    for name, value in place.options.items():
        if name.lower() in (*_WHERE, "url", "table"):
            recorded |= described(name.lower(), value, _absolute(job) if name.lower() == "path" else str)
    return recorded


def _absolute(job: JobFile) -> Callable[[str], str]:
    return lambda path: str(job.path_of(path))


def must_rebuild(text: str, now: str, where: str, given: Collection[str]) -> bool:
    """Whether the checkpoint was made by another job. StateError if its sinks differ in a way that cannot be followed:
    a sink that is new has missed what its view emitted before."""
    kept, job = _read(text, now, where)
    refused = []
    for name, sink in job["copies"].items():
        if name in kept["copies"]:
            refused += [f"sink {name}: {what}" for what in table_differs(kept["copies"][name], sink)]
        elif sink["view"] in kept["views"]:
            refused.append(f"sink {name}: new, of a view that is not")
    if refused:
        listed = "\n  ".join(refused)
        raise StateError(
            f"the checkpoint {where} cannot be rebuilt for this job:\n  {listed}\n"
            "put the sinks back as they were, or start over with another checkpoint folder"
        )
    return any(_differing(kept, job)) or any(plans_differ(kept["views"], job["views"], given))


def continued(text: str, now: str, where: str, given: Collection[str] = ()) -> dict[str, Plan]:
    """The plans with which a checkpoint continues; StateError with the differences if it belongs to another job. Views
    in `given` were requested with a plan, which must be the stored one."""
    kept, job = _read(text, now, where)
    differing = list(_differing(kept, job))
    if not differing:
        differing += plans_differ(kept["views"], job["views"], given)
    if differing:
        listed = "\n  ".join(differing)
        raise StateError(
            f"the checkpoint {where} was created by another job:\n  {listed}\n"
            "restore the job, rebuild the checkpoint for this one (freshet run --rebuild), or start over with another "
            "checkpoint folder"
        )
    return {name: codec.from_json(json.dumps(view["plan"])) for name, view in kept["views"].items()}


def _read(text: str, now: str, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        kept = json.loads(text)
        if kept["format"] != FORMAT:
            raise ValueError(f"format {kept['format']}")
    except (ValueError, KeyError, TypeError) as e:
        raise StateError(f"{where}/{RECORD} cannot be read ({e}); use a new checkpoint folder") from None
    return kept, json.loads(now)


def _differing(kept: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    if None not in (kept["shards"], now["shards"]) and kept["shards"] != now["shards"]:
        yield f"shards: {kept['shards']} then, {now['shards']} now"
    yield from named("table", kept["tables"], now["tables"], table_differs)
    yield from named("view", kept["views"], now["views"], view_differs)
    yield from named("sink", kept["copies"], now["copies"], table_differs)
