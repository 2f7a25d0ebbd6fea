"""Functions written in Python, as their users define them: a name that SQL can call, and a type. TABLE(a INT, b STRING)
is the type of rows: ARRAY<STRUCT<a: INT, b: STRING>>."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from freshet.errors import SqlError, brief
from freshet.scalar import functions
from freshet.scalar.functions.python import PythonFunction
from freshet.sql.calls import NONDETERMINISTIC
from freshet.sql.datatype import bind_type
from freshet.sql.source import SqlText


def python_function(name: str, body: Callable[..., Any], returns: str, deterministic: bool) -> PythonFunction:
    if not callable(body):
        raise SqlError(f"function {name} is {brief(body)}; give something that can be called")
    if type(name) is not str or not name.isidentifier() or not name.isascii():
        raise SqlError(f"{brief(name)} is not a name that SQL can call; use letters, digits and _")
    columns = re.fullmatch(r"\s*TABLE\s*\((.*)\)\s*", returns, re.IGNORECASE | re.DOTALL)
    kind = f"ARRAY<STRUCT<{columns[1]}>>" if columns else returns
    try:
        (statement,) = SqlText(f"SELECT {name}(1), CAST(NULL AS {kind})").statements()
        call, cast = statement.parse().expressions
    except (SqlError, ValueError):
        raise SqlError(f"function {name} cannot return {returns!r}, or has a name that SQL reads as a word") from None
    if not isinstance(call, exp.Anonymous) or name.lower() in functions.FUNCTIONS or name.lower() in NONDETERMINISTIC:
        raise SqlError(f"{name} is a function of SQL already; choose another name")
    return PythonFunction(name, body, bind_type(cast.args["to"], statement), deterministic)
