"""Access of tests to the internals of a database."""

from __future__ import annotations

from freshet.database.db import Database, inside
from freshet.durable.store import Store


def store_of(db: Database) -> Store:
    """The folder a database is kept in."""
    store = inside(db).store
    assert store is not None
    return store
