"""Plans that adapt to the data: when another join tree would be clearly cheaper, a view is rebuilt on it.

The changes of each table are counted. After as many changes as there are rows, a view is checked (rebuilding it costs
about as much as loading its rows, so checking that often adds a constant to each change):

- If its measured cost, in counters changed, is next to nothing, it stays: there is nothing to gain.
- The trees that the planner would choose for the recent changes are compared with the current ones by the nodes that
  changes visit (plans/cost.py). A view switches when its current trees cost `ratio` times as much. To switch back, the
  changes must favour the old trees as clearly, so a view does not oscillate between two trees of similar cost.
- The number of visited nodes is an estimate. A view whose measured cost is higher after a switch than before switches
  back, and is checked half as often from then on.

The counts of earlier checks are halved at each check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from freshet.database.metrics import MeasuredWork
from freshet.errors import PlanError
from freshet.logical.query import AnyQuery
from freshet.plans import AnyPlan, build_plan
from freshet.plans.cost import walked

_LEAST = 10_000  # changes before a check, if there are fewer rows
_TURNED = 0.05  # the share of all changes that must have moved to other tables before the planner runs again


@dataclass(frozen=True, slots=True)
class Adapt:
    """When views switch to another join tree, as an argument of `connect`.

    Parameters
    ----------
    ratio
        How many times cheaper another tree must be.
    paying
        Counters changed for each change of its tables; a view with a lower cost keeps its tree.
    patience
        Changes of its tables before a view is checked again; by default as many as they have rows, at least 10,000.

    Raises
    ------
    PlanError
        `ratio` or `patience` is less than 1.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect(adapt=freshet.Adapt(ratio=2.0, patience=100_000))
    """

    ratio: float = 1.5
    paying: float = 1.0
    patience: int | None = None

    def __post_init__(self) -> None:
        if not self.ratio >= 1:
            raise PlanError(f"a ratio of {self.ratio}: a view switches only to a cheaper tree; give 1 or more")
        if self.patience is not None and self.patience < 1:
            raise PlanError(f"a patience of {self.patience} changes; give 1 or more")


def adapting(times: float) -> bool | Adapt:
    """The `adapt` argument of `connect` for a given ratio; 0: views keep their trees."""
    return Adapt(ratio=times) if times else False


@dataclass(frozen=True, slots=True)
class CurrentTree:
    """The current tree of a view: since which version, why, after how many switches."""

    since: int
    why: str
    moves: int = 0
    failed: str | None = None  # why the last switch failed


class BetterPlan(NamedTuple):
    plan: AnyPlan
    why: str


class Following:
    """Follows the changes of one view's tables. Without `adapt` it never checks them."""

    def __init__(self, adapt: Adapt | None, chosen: CurrentTree, counts: Mapping[str, int]) -> None:
        self.adapt, self.chosen = adapt, chosen
        self._counts = dict(counts)  # at the last check
        self._spent = MeasuredWork(0)
        self._late = dict.fromkeys(counts, 0.0)  # recent changes
        self._parts: dict[str, float] = {}  # each table's share of them when the planner last ran
        self._previous: tuple[AnyPlan, float] | None = None  # the plan it switched from, and the cost of that plan
        self._failed_switches = 0

    def wait(self, counts: Mapping[str, int], rows: int) -> int:
        """Changes until the next check."""
        assert self.adapt is not None
        patience = max(_LEAST, rows) if self.adapt.patience is None else self.adapt.patience
        return (patience << self._failed_switches) - sum(counts[name] - self._counts[name] for name in counts)

    def look(self, counts: Mapping[str, int], spent: MeasuredWork, query: AnyQuery, plan: AnyPlan) -> BetterPlan | None:
        """A better plan than this one, if there is one. `spent`: by the view, since it was created."""
        assert self.adapt is not None
        for name, count in counts.items():
            self._late[name] = self._late[name] / 2 + count - self._counts[name]
        period = spent.since(self._spent)
        self._counts, self._spent = dict(counts), spent
        pays = period.counters / max(1, period.changes)
        previous, self._previous = self._previous, None
        if previous is not None and pays > previous[1] and previous[0] != plan:
            self._failed_switches += 1
            return BetterPlan(
                previous[0], f"a change paid {previous[1]:.2f} counters here, {pays:.2f} where it seemed better"
            )
        return self._planned(pays, query, plan) if pays >= self.adapt.paying else None

    def _planned(self, pays: float, query: AnyQuery, plan: AnyPlan) -> BetterPlan | None:
        assert self.adapt is not None
        total = sum(self._late.values())
        parts = {name: late / total for name, late in self._late.items()}
        if all(abs(parts[name] - self._parts.get(name, -1)) <= _TURNED for name in parts):
            return None
        self._parts = parts
        other = build_plan(query, self._late)
        before, after = walked(plan, self._late), walked(other, self._late)
        if before <= after * self.adapt.ratio:
            return None
        self._previous = plan, pays
        most = max(parts, key=lambda name: parts[name])
        return BetterPlan(
            other,
            f"{parts[most]:.0%} of recent changes are of {most}; a change paid {pays:.2f} counters, "
            f"and now walks {after / total:.2f} nodes instead of {before / total:.2f}",
        )
