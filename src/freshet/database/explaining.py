"""The cost of a view and how it is maintained, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from freshet.database.kept_view import KeptView
from freshet.database.metrics import Clock, figures
from freshet.engine.maintained import Maintained
from freshet.engine.work import Work
from freshet.plans import explain
from freshet.plans.explain import Standing, as_dict

#: The names of the operators that read each shared query (Sharing.reading).
Readers = Mapping[int, list[str]]


def metrics(view: KeptView, clock: Clock, readers: Readers | None = None) -> dict[str, Any]:
    """The cost of maintaining the view, since it was created and over the last minute."""
    recent, chosen = view.paid.last_minute(clock.now(), view.operator), view.following.chosen
    return {
        **view.paid.total(view.operator).as_dict(),
        "last_minute": recent.as_dict(),
        "shared": [{"with": query.others, **figures(query.work)} for query in _read(view, readers)],
        "tree_switches": chosen.moves,
        "tree_since": chosen.since,
    }


def explained(view: KeptView, clock: Clock) -> tuple[str, dict[str, Any]]:
    """How a view is maintained: as text, and as a document."""
    kept, chosen, plan = view.operator.unindexed, view.following.chosen, view.plan.root
    statistics = _standing(kept)
    paid = metrics(view, clock)
    nbytes, shared = kept.scope.nbytes(), _read(view)
    work = _words({**{k: v for k, v in paid.items() if k != "shared"}, "keys_flipped": kept.work().flipped})
    promise = {
        "update": plan.guarantee.update,
        "paid per change": paid["steps_per_change"],
        "paid per change, last minute": paid["last_minute"]["steps_per_change"],
    }
    document = {
        "view": view.name,
        **as_dict(plan, statistics),
        "state": {"bytes": nbytes, "tuples": sum(n for n, _ in statistics.nodes)},
        "shared": [{"bytes": query.nbytes, "with": query.others, "paid": asdict(query.work)} for query in shared],
        "work": work,
        "promise": promise,
        "chosen": {**asdict(chosen), "adapts": view.following.adapt is not None},
    }
    lines = [f"view       {view.name}\n{explain(plan, statistics)}"]
    lines += [f"state      {nbytes:,} bytes next to the tables"]
    lines += [f"shared     {_shared(query)}" for query in shared]
    lines += _work(work)
    lines += [f"promised   {promise['update']}", *_paid(work)]
    moves = f" (moves so far: {chosen.moves})" if chosen.moves else ""
    lines.append(f"chosen     at version {chosen.since}: {chosen.why}{moves}")
    if chosen.failed is not None:
        lines.append(f"           another tree could not be built: {chosen.failed}")
    return "\n".join(lines), document


@dataclass(frozen=True, slots=True)
class _Shared:
    """A query that the view reads, and that is maintained once for all who read it: the size of its state, the other
    views, and the steps it has taken since it exists, without those of shared queries that it reads itself. The steps
    of each view that reads it include those it has taken since the view was created."""

    nbytes: int
    others: list[str]
    work: Work


def _read(view: KeptView, readers: Readers | None = None) -> list[_Shared]:
    sharing = view.state.core.sharing
    queries = sharing.read_by(view.operator)
    if queries and readers is None:
        readers = sharing.reading()
    known = {id(query) for query in queries}
    return [
        _Shared(
            query.scope.nbytes(),
            sorted(name for name in (readers or {})[id(query)] if name != view.key),
            query.query.work(set(known)),
        )
        for query in queries
    ]


def _shared(query: _Shared) -> str:
    readers = "read in several places here"
    if query.others:
        readers = f"with {'view' if len(query.others) == 1 else 'views'} {', '.join(query.others)}"
    return f"a query of {query.nbytes:,} bytes, {readers}; it has paid {query.work.steps:,} steps"


def _standing(kept: Maintained) -> Standing:
    below = [_standing(query) for query in kept.reads or kept.below]
    return Standing(kept.statistics(), below, asdict(kept.own_work()))


def _words(figures: dict[str, Any]) -> dict[str, Any]:
    """Metrics as `explain` names them."""
    return {k.replace("_", " "): _words(v) if isinstance(v, dict) else v for k, v in figures.items()}


def _work(work: dict[str, Any]) -> Iterator[str]:
    for title, spent in (("work", work), ("minute", work["last minute"])):
        per = f", {spent['counters per change']:.2f} a change" if spent["changes"] else ""
        yield f"{title:<10} {spent['counters changed']:,} counters changed by {spent['changes']:,} changes{per}"


def _paid(work: dict[str, Any]) -> Iterator[str]:
    """The cost of a change by kind of step, for comparison with the promise above it."""
    for title, spent in (("paid", work), ("recently", work["last minute"])):
        if not spent["changes"]:
            yield f"{title:<10} nothing: no changes"
            continue
        kinds = {k.removesuffix(" per change"): v for k, v in spent.items() if k.endswith(" per change") and v}
        total = kinds.pop("steps", 0)
        yield f"{title:<10} {total:,.2f} steps a change" + "".join(f", {v:,.2f} {k}" for k, v in kinds.items())
