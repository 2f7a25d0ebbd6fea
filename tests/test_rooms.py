"""Rooms follow the data, imports point one way (lazy imports and those for types included), and nothing is unused."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
#: From the lowest level up. A room may import rooms before it, and itself. Rooms in one entry share a level.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "version", "interrupts", "budget"),
    ("state",),
    ("scalar",),
    ("aggregates",),
    ("windows",),
    ("query",),
    ("logical",),
    ("sql",),
    ("plans",),
    ("engine",),
    ("durable",),
    ("database",),
    ("freshet",),  # the public face
    ("testing",),
    ("spark",),
    ("job",),
    ("demo",),
    ("web",),
    ("cli",),
)


def modules() -> dict[str, Path]:
    paths = {}
    for path in (SOURCE / "freshet").rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name.startswith("freshet") and name not in known:
                name = name.rpartition(".")[0]
            if name.startswith("freshet"):
                yield name


def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: set(imports(path, known)) - {name} for name, path in known.items()}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def test_nothing_is_unused() -> None:
    """Every function, class and constant of a module is named somewhere else in the package."""
    uses = Counter(word for path in (SOURCE / "freshet").rglob("*.py") for word in re.findall(r"\w+", path.read_text()))
    unused = {
        f"{module}: {name}"
        for module, path in modules().items()
        for name in definitions(ast.parse(path.read_text()))
        if uses[name] == 1 and not name.startswith("__")
    }
    assert not unused


def definitions(module: ast.Module) -> Iterator[str]:
    """The names that a module defines, without those that a decorator registers."""
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list:
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))


def test_every_room_has_its_floor() -> None:
    floors = [name for floor in FLOORS for name in floor]
    assert {room(m) for m in modules()} == set(floors)


def test_imports_point_down() -> None:
    height = {name: at for at, floor in enumerate(FLOORS) for name in floor}
    upward = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if height[room(module)] < height[room(other)]
    ]
    assert upward == []


def test_no_modules_import_each_other() -> None:
    edges = graph()
    while True:  # a module that imports none of the remaining ones is in no cycle
        free = {module for module, others in edges.items() if not others & edges.keys()}
        if not free:
            break
        edges = {module: others for module, others in edges.items() if module not in free}
    assert {module: sorted(others & edges.keys()) for module, others in edges.items()} == {}
