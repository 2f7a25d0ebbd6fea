"""SQL text → bound statements."""

from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query, bind_view, parse

__all__ = ["Catalog", "bind_query", "bind_view", "parse"]
