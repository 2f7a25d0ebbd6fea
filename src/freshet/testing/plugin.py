"""A pytest plugin, registered by the entry point of an installed Freshet.

The entry point has the module's own name, so that a ``conftest.py`` may name the plugin as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from freshet.testing import assert_fresh

if TYPE_CHECKING:
    from freshet.database.db import Database


@pytest.fixture
def freshet_db() -> Iterator[Database]:
    """A database in memory, closed after the test; before that, every view must be fresh."""
    from freshet.database.connection import connect

    with connect() as db:
        yield db
        if not db.closed:
            assert_fresh(db)
