"""`freshet.testing`: a view that is not what its query gives is found; the plugin's fixture looks after each test."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import freshet
from freshet.database.db import inside
from freshet.testing import assert_fresh, plugin

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
    with pytest.raises(AssertionError, match=r"view v is not fresh at version 1\n1 rows that only the query returns"):
        assert_fresh(db)


def test_the_plugin_is_declared() -> None:
    """As an entry point under its own name: then a conftest that names it too does not register it twice."""
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"]
    assert declared["pytest11"] == {plugin.__name__: plugin.__name__}


def test_the_plugin_brings_nothing_heavy() -> None:
    code = "import sys, freshet.testing.plugin; print({'numba', 'numpy', 'pyarrow', 'sqlglot'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert run.stdout == "set()\n"


@pytest.mark.parametrize("conftest", ["", 'pytest_plugins = ["freshet.testing.plugin"]'])
def test_fixture(pytester: pytest.Pytester, conftest: str) -> None:
    pytester.makeconftest(conftest)
    pytester.makepyfile(
        """
        def test_view(freshet_db):
            freshet_db.execute("CREATE TABLE t (a INT)")
            view = freshet_db.create_view("n", "SELECT COUNT(*) AS n FROM t")
            freshet_db.apply({"t": [(1,)]})
            assert view.to_dicts() == [{"n": 1}]
        """
    )
    pytester.plugins = [] if conftest or _installed() else [plugin]
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def _installed() -> bool:
    """Whether the environment was made since the entry point is declared."""
    return plugin.__name__ in {each.name for each in entry_points(group="pytest11")}
