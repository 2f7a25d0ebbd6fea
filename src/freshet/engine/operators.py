"""Imports all operators, which registers each for the plans it runs."""

from __future__ import annotations

from freshet.engine import (  # noqa: F401
    bag,
    bounded_sums,
    constant,
    flattened,
    indexed,
    looked_up,
    query,
    recursive,
    set_operation,
    sorted,
    timed,
    top_k,
    union_all,
    window,
)
from freshet.engine.maintained import maintain

__all__ = ["maintain"]
