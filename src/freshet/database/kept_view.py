"""The database's record of a view: its plan and operator, its cost, and its subscribers."""

from __future__ import annotations

from collections.abc import Callable

from freshet.database.adapt import Following
from freshet.database.metrics import CostMeter
from freshet.database.state import State
from freshet.database.transaction import Subscription, Transaction
from freshet.engine.core import tables_of
from freshet.engine.maintained import Maintained
from freshet.plans import Plan


class KeptView:
    """`made`: the version at which it was created."""

    def __init__(self, state: State, name: str, plan: Plan, paid: CostMeter, following: Following, made: int) -> None:
        self.state = state
        self.name = name
        self.key = name.lower()
        self.plan = plan
        self.paid = paid
        self.following = following
        self.made = made
        self.subscriptions: list[Subscription] = []
        self.closed = False

    @property
    def operator(self) -> Maintained:
        """The operator that holds its answer: a different one after the view was rebuilt or switched trees."""
        return self.state.core.operators[self.key]

    def tables(self) -> list[str]:
        return sorted(tables_of(self.plan.root))

    def subscribe(self, callback: Callable[[Transaction], object]) -> Subscription:
        with self.state.lock:
            made = Subscription(callback, self.state.version, self.unsubscribe)
            self.subscriptions.append(made)
            return made

    def unsubscribe(self, subscription: Subscription) -> None:
        with self.state.lock:
            self.subscriptions = [s for s in self.subscriptions if s is not subscription]

    def close(self) -> None:
        """Called when the view was dropped."""
        self.closed = True
        for subscription in self.subscriptions:
            subscription.closed = True
