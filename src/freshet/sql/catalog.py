"""The tables and views of a database, as its users define them."""

from __future__ import annotations

from freshet.sql.definitions import Definitions
from freshet.sql.parse import define


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
