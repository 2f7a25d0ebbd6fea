"""One class name, one class: there is only one `Log`."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import freshet

SOURCES = Path(freshet.__file__).parent


def test_no_name_is_of_two_classes() -> None:
    classes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(str(path.relative_to(SOURCES)))
    assert len(classes) > 100
    assert not {name: places for name, places in classes.items() if len(places) > 1}
