"""SQL text → bound statements."""

from freshet.sql.catalog import Catalog
from freshet.sql.parse import asks_only, bind_all, bind_query, bind_reading, parse
from freshet.sql.source import Source

__all__ = ["Catalog", "Source", "asks_only", "bind_all", "bind_query", "bind_reading", "parse"]
