"""Freshet keeps SQL views fresh over changing tables."""

from __future__ import annotations

from freshet.database.adapt import Adapt
from freshet.database.db import Database, connect
from freshet.database.enclosing import enclosure_stream
from freshet.database.enclosureness import Enclosureness, enclosure
from freshet.database.pending import PendingTransaction
from freshet.database.transaction import SubscriberError, Subscription, Transaction
from freshet.database.view import View
from freshet.errors import BudgetError, ChangeError, FreshetError, PlanError, SqlError, StateError, UnsupportedError
from freshet.plans import Plan, plan
from freshet.sql.catalog import Catalog
from freshet.version import __version__

__all__ = [
    "Adapt", "BudgetError", "Catalog", "ChangeError", "Database", "Enclosureness", "FreshetError",
    "PendingTransaction", "Plan", "PlanError", "SqlError", "StateError", "SubscriberError", "Subscription",
    "Transaction", "UnsupportedError", "View", "__version__", "connect", "enclosure",
    "enclosure_stream", "plan",
]  # fmt: skip
