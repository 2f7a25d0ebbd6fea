"""Freshet keeps SQL views fresh over changing tables."""

from __future__ import annotations

from freshet.adapt import Adapt
from freshet.db import Database, connect
from freshet.enclosing import enclosure_stream
from freshet.enclosureness import Enclosureness, enclosure
from freshet.errors import ChangeError, FreshetError, PlanError, SqlError, StateError, UnsupportedError
from freshet.plans import Plan, plan
from freshet.publish import Subscription
from freshet.sql.catalog import Catalog
from freshet.transaction import SubscriberError, Transaction
from freshet.version import __version__
from freshet.view import View

__all__ = [
    "Adapt", "Catalog", "ChangeError", "Database", "Enclosureness", "FreshetError",
    "Plan", "PlanError", "SqlError", "StateError", "SubscriberError", "Subscription",
    "Transaction", "UnsupportedError", "View", "__version__", "connect", "enclosure",
    "enclosure_stream", "plan",
]  # fmt: skip
