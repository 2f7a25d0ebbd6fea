"""Scalar functions: `build` types a call by Spark's ANSI rules, the families beside this file compute it.

One file a family; each registers its names in `registry`. To add a function, write its resolver and its step there.
"""

from __future__ import annotations

from collections.abc import Sequence

from freshet.sql.expression import Expression
from freshet.sql.functions import (  # noqa: F401  (importing a family registers its functions)
    arithmetic,
    bits,
    calendar,
    comparison,
    conditional,
    date_texts,
    datetime,
    digest,
    extremes,
    like,
    logic,
    mathematics,
    measures,
    moments,
    regexp,
    rounding,
    search,
    shaping,
    spread,
    strings,
)
from freshet.sql.functions.attempts import try_cast
from freshet.sql.functions.casting import cast
from freshet.sql.functions.coercion import common_type
from freshet.sql.functions.compiled import fold, unreached
from freshet.sql.functions.nullability import nullable
from freshet.sql.functions.registry import names, resolve
from freshet.types import Type

__all__ = ["build", "cast", "common_type", "fold", "names", "nullable", "try_cast", "unreached"]


def build(name: str, args: Sequence[Expression], *, type: Type | None = None) -> Expression:
    """The typed call of function or operator `name`; a literal when all arguments are. `type` is for casts alone."""
    if name == "cast":
        assert type is not None and len(args) == 1, "cast takes one argument and a type"
        return cast(args[0], type)
    return fold(resolve(name, args))
