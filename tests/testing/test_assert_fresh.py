"""`freshet.testing`: a view that is not what its query gives is found; the plugin's fixture looks after each test."""

from __future__ import annotations

import numpy as np
import pytest

import freshet
from freshet.database.db import inside
from freshet.testing import assert_fresh

pytest_plugins = ["pytester"]


def test_fresh_views_pass() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a DOUBLE, s STRING)")
    db.create_view("lists", "SELECT s, ARRAY_AGG(a) AS l FROM t GROUP BY s")
    db.create_view("above", "SELECT COUNT(*) AS n FROM lists")
    db.apply({"t": [(1.5, "a"), (float("nan"), "a"), (None, None)]})
    assert_fresh(db)


def test_a_stale_view_is_found() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT)")
    db.create_view("v", "SELECT a FROM t")
    db.apply({"t": [(1,), (2,)]})
    table = inside(db).state.core.tables["t"]
    row = np.zeros((1, table.width), np.int64)
    row[0, 0] = 9
    table.add(table.resolve(row, np.ones(1, np.int64)))  # behind the view's back
    with pytest.raises(
        AssertionError, match=r"view v is not fresh at version 1\n1 rows that its query gives, and it lacks"
    ):
        assert_fresh(db)


def test_fixture(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["freshet.testing.plugin"]')
    pytester.makepyfile(
        """
        def test_view(freshet_db):
            freshet_db.execute("CREATE TABLE t (a INT)")
            view = freshet_db.create_view("n", "SELECT COUNT(*) AS n FROM t")
            freshet_db.apply({"t": [(1,)]})
            assert view.to_dicts() == [{"n": 1}]
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
