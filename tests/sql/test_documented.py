"""docs/sql.md lists exactly the supported functions."""

from __future__ import annotations

import re
from pathlib import Path

from freshet.sql.calls import SPELLED
from freshet.sql.lambdas import OF_ELEMENTS

#: Functions that Spark has under another name or as special syntax.
INTERNAL = {"is_null", "is_not_null", "starts_with", "ends_with"}
#: Functions that the parser reads as one of the others.
PARSED = {"charindex"}
#: Calls that are no functions of their arguments' values alone.
SPECIAL = {"aggregate", "reduce", "window", *OF_ELEMENTS}


def test_every_function_is_listed() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
    listed = re.search(r"- \*\*Arrays, structs.*?(?=\n## )", text, re.DOTALL)
    assert listed is not None
    written = set(re.findall(r"`(\w+)`", listed[0]))
    assert written - PARSED == (SPELLED - INTERNAL) | SPECIAL
