"""The tables and views of a database, as its users define them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from freshet.errors import SqlError
from freshet.sql.definitions import Definitions
from freshet.sql.parse import define
from freshet.sql.python_function import python_function


class Catalog(Definitions):
    """Tables and views by name, for planning without a database.

    Examples
    --------
    >>> import freshet
    >>> catalog = freshet.Catalog.from_ddl("CREATE TABLE t (a INT)")
    >>> freshet.plan("SELECT a FROM t", catalog).sql
    'SELECT a FROM t'
    """

    @classmethod
    def from_ddl(cls, text: str) -> Catalog:
        """Read CREATE statements.

        Parameters
        ----------
        text
            CREATE TABLE and CREATE MATERIALIZED VIEW statements, separated by semicolons.

        Returns
        -------
        Catalog
            The tables and views they define.

        Raises
        ------
        SqlError
            A statement cannot be read, or is not one of these.

        Examples
        --------
        >>> import freshet
        >>> freshet.Catalog.from_ddl("CREATE TABLE t (a INT)").names()
        ['t']
        """
        return define(text, cls())

    def create_function(
        self, name: str, function: Callable[..., Any], *, returns: str, deterministic: bool = True
    ) -> None:
        """Make a Python function callable from the queries that are planned over this catalog.

        Parameters
        ----------
        name
            A name that is not a function of SQL.
        function
            Takes a ``pyarrow.Array`` for each argument, all of one length, and returns as many values: an Arrow array,
            a numpy array or a list.
        returns
            The type of its values, as in SQL. ``TABLE(a INT, b STRING)`` makes a table function, each value of which
            is a list of rows.
        deterministic
            Whether it always gives the same value for the same arguments. Views call only such functions.

        Raises
        ------
        SqlError
            The name is taken, or the type is unknown, or the catalog is that of a database.

        Examples
        --------
        >>> import freshet
        >>> import pyarrow.compute as pc
        >>> catalog = freshet.Catalog.from_ddl("CREATE TABLE t (a DOUBLE)")
        >>> catalog.create_function("score", lambda x: pc.sqrt(x), returns="DOUBLE")
        >>> freshet.plan("SELECT SUM(score(a)) AS s FROM t", catalog).sql
        'SELECT SUM(score(a)) AS s FROM t'
        """
        if self.clock is not None:
            raise SqlError("this is the catalog of a database; use its create_function")
        self.functions[name.lower()] = python_function(name, function, returns, deterministic)
