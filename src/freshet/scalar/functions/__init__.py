"""Scalar functions: `build` types a call by Spark's ANSI rules, the family modules in this folder compute it.

There is one file per family, which ends with the records of its functions (see `registry`). To add a function, write
its resolver, its step and its record there.
"""

from __future__ import annotations

from collections.abc import Sequence

from freshet.scalar.expression import Expression
from freshet.scalar.functions import (  # noqa: F401  (importing a family declares its functions)
    arithmetic,
    arrays,
    binary,
    bits,
    calendar,
    comparison,
    conditional,
    date_readers,
    date_texts,
    datetime,
    digest,
    double_totals,
    extremes,
    formats,
    intervals,
    json_texts,
    json_values,
    json_written,
    lambdas,
    like,
    logic,
    maps,
    mathematics,
    measures,
    moments,
    radix,
    regexp,
    rounding,
    search,
    shaping,
    splitting,
    spread,
    strings,
    structs,
    time_windows,
    variants,
    zones,
)
from freshet.scalar.functions.attempts import try_cast
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.coercion import common_type
from freshet.scalar.functions.compiled import fold, unreached
from freshet.scalar.functions.nullability import nullable
from freshet.scalar.functions.registry import FUNCTIONS, function_of, names, resolve
from freshet.scalar.types import Type

__all__ = [
    "FUNCTIONS",
    "build",
    "cast",
    "common_type",
    "fold",
    "function_of",
    "names",
    "nullable",
    "try_cast",
    "unreached",
]


def build(name: str, args: Sequence[Expression], *, type: Type | None = None) -> Expression:
    """The typed call of function or operator `name`; a literal if all arguments are. `type` is only for casts."""
    if name == "cast":
        assert type is not None and len(args) == 1, "cast takes one argument and a type"
        return cast(args[0], type)
    return fold(resolve(name, args))
