"""The tables and views of a database, as its users define them."""

from __future__ import annotations

from freshet.sql.definitions import Definitions
from freshet.sql.parse import define


class Catalog(Definitions):
    """Tables and views by name, for planning without a database."""

    @classmethod
    def from_ddl(cls, text: str) -> Catalog:
        """The tables and views that CREATE statements define."""
        return define(text, cls())
