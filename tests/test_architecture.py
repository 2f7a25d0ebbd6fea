"""ARCHITECTURE.md is true: the files and folders that it names exist, and its list has every room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_rooms import FLOORS

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
#: Paths in backquotes; other texts in them are names of code.
NAMED = sorted(set(re.findall(r"`([\w./-]+(?:\.(?:py|md|json|js|sql)|/))`", TEXT)))
FOLDERS = ("src", "tests", "docs", "tools", "benchmarks", "examples")
PATHS = [*ROOT.iterdir(), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
PLACES = [path.relative_to(ROOT).as_posix() for path in PATHS if "__pycache__" not in path.parts]


def test_it_names_many_files() -> None:
    assert len(NAMED) > 100


@pytest.mark.parametrize("name", NAMED)
def test_what_it_names_exists(name: str) -> None:
    wanted = name.rstrip("/")
    assert any(f"/{place}".endswith(f"/{wanted}") for place in PLACES), f"there is no {name}"


def test_modules_listed_in_parentheses_exist() -> None:
    listed = re.search(r"^  database/ .*?^  __init__", TEXT, re.DOTALL | re.MULTILINE)
    assert listed is not None
    names = re.findall(r"(\w+)[,);]", " ".join(re.findall(r"\([^)]*\)", listed.group())))
    assert len(names) > 20
    folder = ROOT / "src" / "freshet" / "database"
    assert [name for name in names if not (folder / f"{name}.py").exists()] == []


def test_every_room_is_listed() -> None:
    rooms = {name for floor in FLOORS for name in floor} - {"freshet", "version"}
    lines = re.findall(r"^  (\w[\w, /]*?)(?:   ?|/ )", TEXT, re.MULTILINE)
    assert rooms <= set(re.findall(r"\w+", " ".join(lines)))
