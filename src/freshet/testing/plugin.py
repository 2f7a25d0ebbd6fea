"""A plugin for pytest: name it in your ``conftest.py``, as in ``pytest_plugins = ["freshet.testing.plugin"]``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshet.database.db import Database, connect
from freshet.testing import assert_fresh


@pytest.fixture
def freshet_db() -> Iterator[Database]:
    """A database in memory, closed after the test; before that, every view must be fresh."""
    with connect() as db:
        yield db
        if not db.closed:
            assert_fresh(db)
