"""A job for people: levels, what runs there, and over which grid each table is spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from freshet.plans.model import AnyPlan, QueryPlan
from freshet.scalar.describe import describe
from freshet.spark.job import Job


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
            views = [v.name for v in job.views if operator.name in v.operators]
            gives = f", gives view {', '.join(views)}" if views else ""
            yield f"  {operator.name} {_reads(operator.plan)}{gives}"
        for s in (s for s in job.streams if s.level == level):
            columns = ", ".join(f.name for f in s.schema.fields)
            parts = [
                f"{'×'.join(str(d.share) for d in s.grid) or '1'} cells",
                *(
                    f"{d.name}: {'hashed on ' + ', '.join(describe(e) for e in d.hashed) if d.hashed else 'copied'}"
                    for d in s.grid
                ),
            ]
            yield f"  {', '.join(s.sources)} ({columns}) · " + " · ".join(parts)


def _reads(plan: AnyPlan) -> str:
    if not isinstance(plan, QueryPlan):
        return f"is {plan.guarantee.query_class}"
    shown = [plan.relations[n.relation].alias for n in plan.nodes if not n.generalized]
    return f"reads {', '.join(shown)}" if shown else "is constant"
