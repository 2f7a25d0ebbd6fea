"""The README's example is examples/quickstart.py, and prints what the README says it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def block(language: str) -> str:
    match = re.search(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert match is not None, f"the README has no {language} block"
    return match[1]


def test_example_is_the_quickstart() -> None:
    assert block("python") == (ROOT / "examples" / "quickstart.py").read_text()


def test_example_prints_what_the_readme_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("python"), str(ROOT / "examples" / "quickstart.py"), "exec"), {})
    assert capsys.readouterr().out == block("text")


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target
