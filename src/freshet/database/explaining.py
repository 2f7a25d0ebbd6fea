"""What a view costs and how it is kept, in figures and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from freshet.database.kept_view import KeptView
from freshet.database.metrics import Clock
from freshet.engine.maintained import Maintained
from freshet.plans import explain
from freshet.plans.explain import Standing, as_dict


def metrics(view: KeptView, clock: Clock) -> dict[str, Any]:
    """What keeping the view has cost, since it was made and over the last minute."""
    recent, chosen = view.paid.last_minute(clock.now(), view.operator), view.following.chosen
    return {
        **view.paid.total(view.operator).as_dict(),
        "last_minute": recent.as_dict(),
        "tree_switches": chosen.moves,
        "tree_since": chosen.since,
    }


def explained(view: KeptView, clock: Clock) -> tuple[str, dict[str, Any]]:
    """How a view is kept: as text, and as a document."""
    kept, chosen, plan = view.operator, view.following.chosen, view.plan.root
    statistics = _standing(kept)
    nbytes, work = kept.scope.nbytes(), _words({**metrics(view, clock), "keys_flipped": kept.work()[1]})
    figures = {
        "view": view.name,
        **as_dict(plan, statistics),
        "state": {"bytes": nbytes, "tuples": sum(n for n, _ in statistics.nodes)},
        "work": work,
        "chosen": {**asdict(chosen), "adapts": view.following.adapt is not None},
    }
    lines = [f"view       {view.name}\n{explain(plan, statistics)}"]
    lines += [f"state      {nbytes:,} bytes beside the tables", *_work(work)]
    moves = f" (moves so far: {chosen.moves})" if chosen.moves else ""
    lines.append(f"chosen     at version {chosen.since}: {chosen.why}{moves}")
    if chosen.failed is not None:
        lines.append(f"           another tree could not be built: {chosen.failed}")
    return "\n".join(lines), figures


def _standing(kept: Maintained) -> Standing:
    return Standing(kept.statistics(), [_standing(below) for below in kept.reads or kept.below])


def _words(figures: dict[str, Any]) -> dict[str, Any]:
    """Metrics as `explain` names them."""
    return {k.replace("_", " "): _words(v) if isinstance(v, dict) else v for k, v in figures.items()}


def _work(work: dict[str, Any]) -> Iterator[str]:
    for title, spent in (("work", work), ("minute", work["last minute"])):
        per = f", {spent['counters per change']:.2f} a change" if spent["changes"] else ""
        yield f"{title:<10} {spent['counters changed']:,} counters changed by {spent['changes']:,} changes{per}"
