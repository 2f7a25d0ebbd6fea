"""Freshet keeps SQL views fresh over changing tables."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from freshet.errors import BudgetError, ChangeError, FreshetError, PlanError, SqlError, StateError, UnsupportedError
from freshet.version import __version__

if TYPE_CHECKING:
    from freshet.database.adapt import Adapt
    from freshet.database.connection import connect
    from freshet.database.db import Database
    from freshet.database.enclosing import enclosure_stream
    from freshet.database.enclosureness import Enclosureness, enclosure
    from freshet.database.pending import PendingTransaction
    from freshet.database.transaction import SubscriberError, Subscription, Transaction
    from freshet.database.view import View
    from freshet.plans import Plan, plan
    from freshet.sql.catalog import Catalog

__all__ = [
    "Adapt", "BudgetError", "Catalog", "ChangeError", "Database", "Enclosureness", "FreshetError",
    "PendingTransaction", "Plan", "PlanError", "SqlError", "StateError", "SubscriberError", "Subscription",
    "Transaction", "UnsupportedError", "View", "__version__", "connect", "enclosure",
    "enclosure_stream", "plan",
]  # fmt: skip

#: What `freshet.spark.ship` sends next to the package, for a Python that lacks it.
_SENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "freshet_dependencies")
if os.path.isdir(_SENT) and _SENT not in sys.path:
    sys.path.append(_SENT)

#: The modules of the other names. They are imported at first use, because the engine loads a compiler.
_HOMES = {
    "Adapt": "database.adapt",
    "Catalog": "sql.catalog",
    "Database": "database.db",
    "Enclosureness": "database.enclosureness",
    "PendingTransaction": "database.pending",
    "Plan": "plans",
    "SubscriberError": "database.transaction",
    "Subscription": "database.transaction",
    "Transaction": "database.transaction",
    "View": "database.view",
    "connect": "database.connection",
    "enclosure": "database.enclosureness",
    "enclosure_stream": "database.enclosing",
    "plan": "plans",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'freshet' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"freshet.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
