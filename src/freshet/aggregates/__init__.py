"""Aggregates, one family per file: each defines its syntax, type, state and result, and how it is carried up a tree and
split.

Importing a family registers its aggregates; `functions.AGGREGATES` finds them by name, `functions.SPELLED` by the
parsed form. To add one, write it next to similar ones and list its file here.
"""

from freshet.aggregates import (  # noqa: F401  (importing a family registers its aggregates)
    any_value,
    bits,
    by,
    count,
    ends,
    lists,
    mode,
    moments,
    quantiles,
    spread,
    sums,
)
from freshet.aggregates.function import AGGREGATES, SPELLED, AggregateFunction, function_of

__all__ = ["AGGREGATES", "SPELLED", "AggregateFunction", "function_of"]
