"""A job for people, in words or as data for a picture: levels, what runs there, how each table is spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from freshet.plans.model import AnyPlan, QueryPlan
from freshet.scalar.describe import describe
from freshet.spark.job import Dimension, Job, Operator, Stream


def explain_job(job: Job, sizes: Mapping[str, float] | None = None) -> str:
    """The grid, what it was chosen by, and the levels, for people."""
    return "\n".join(_lines(job, sizes or {}))


def _lines(job: Job, sizes: Mapping[str, float]) -> Iterator[str]:
    yield f"shards     {job.shards}"
    known = ", ".join(f"{name} {rows:,.0f}" for name, rows in sizes.items())
    yield f"sizes      {known or 'unknown: a table is taken to be larger than those it refers to'}"
    for level in range(job.levels):
        yield f"level {level}"
        for operator in (o for o in job.operators if o.level == level):
            views = _given(job, operator.name)
            gives = f", gives view {', '.join(views)}" if views else ""
            yield f"  {operator.name} {_reads(operator.plan)}{gives}{_in_parts(operator)}"
        for s in (s for s in job.streams if s.level == level):
            columns = ", ".join(f.name for f in s.schema.fields)
            yield f"  {', '.join(s.sources)} ({columns}) · {_spread(s)}"


def dataflow(job: Job) -> dict[str, Any]:
    """The same as data that JSON can hold."""
    return {
        "shards": job.shards,
        "levels": [
            {
                "operators": [
                    {"name": o.name, "does": _reads(o.plan), "views": _given(job, o.name)}
                    for o in job.operators
                    if o.level == level
                ],
                "streams": [
                    {"sources": list(s.sources), "columns": [f.name for f in s.schema.fields], "spread": _spread(s)}
                    for s in job.streams
                    if s.level == level
                ],
            }
            for level in range(job.levels)
        ],
    }


def _given(job: Job, operator: str) -> list[str]:
    return [v.name for v in job.views if operator in v.operators]


def _in_parts(operator: Operator) -> str:
    """What is sent between the levels of a join, and why it has several."""
    said = f", sends a row at most for each of {operator.trunk} to where it is stored" if operator.trunk else ""
    if operator.expected:
        rows, uncut = operator.expected
        said += f"; its levels bring the busiest shard {rows:,.0f} rows, HyperCube alone {uncut:,.0f}"
    return said


def _spread(stream: Stream) -> str:
    """The cells of its grid, and how rows find theirs."""
    ways = (f"{d.name}: {_way(d)}" for d in stream.grid)
    return " · ".join([f"{'×'.join(str(d.share) for d in stream.grid) or '1'} cells", *ways])


def _way(dimension: Dimension) -> str:
    if not dimension.hashed:
        return "copied"
    way = f"hashed on {', '.join(describe(e) for e in dimension.hashed)}"
    if not dimension.heavy:
        return way
    values = "1 heavy value" if len(dimension.heavy) == 1 else f"{len(dimension.heavy)} heavy values"
    row = ", ".join(describe(e) for e in dimension.row)
    return f"{way}, rows of {values} {f'hashed on {row}' if row else 'copied'}"


def _reads(plan: AnyPlan) -> str:
    if not isinstance(plan, QueryPlan):
        return f"is {plan.guarantee.query_class}"
    shown = [plan.relations[n.relation].alias for n in plan.nodes if not n.generalized]
    return f"reads {', '.join(shown)}" if shown else "is constant"
