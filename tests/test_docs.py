"""The docs site: every block of Python and SQL runs, the site builds without a warning, and a viewer fetches nothing.

A block's words after its language say how it runs: `sql job` is a job file, `python spark` runs in tests/spark. Others
run page by page, in order, in a folder of their own; SQL on a page runs in its `db`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import freshet
from freshet.job.mistakes import find_mistakes
from freshet.testing import assert_fresh

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```(\w+)( [^\n]*)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FETCHED = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")
#: Pages of Spark have their blocks run in tests/spark/test_docs.py.
ON_SPARK = {"jobs.md", "howto/spark-cluster.md"}


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "incoming").mkdir()
    names: dict[str, Any] = {}
    for language, how, text in BLOCK.findall((DOCS / page).read_text()):
        match (language, how.strip()):
            case ("python", ""):
                exec(compile(text, page, "exec"), names)
            case ("python", "spark"):
                assert page in ON_SPARK
            case ("sql", "job"):
                assert find_mistakes(text, tmp_path)[1] == []
            case ("sql", ""):
                names.setdefault("db", freshet.connect()).execute(text)
            case _:
                assert language in ("json", "text", "sh"), f"a block of {language} {how} is not run"
    for db in [each for each in names.values() if isinstance(each, freshet.Database) and not each.closed]:
        assert_fresh(db)
        db.close()


def test_most_pages_show_something_that_runs() -> None:
    shown = [page for page in PAGES if re.search(r"^```(python|sql)", (DOCS / page).read_text(), re.MULTILINE)]
    assert len(shown) > len(PAGES) / 2


def test_the_site(tmp_path: Path) -> None:
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    assert {page.replace(".md", ".html") for page in PAGES} <= pages.keys()
    for page, html in pages.items():
        fetched = FETCHED.findall(html)
        assert not fetched, f"{page} fetches {fetched}"
    functions = pages["reference/functions.html"]
    assert "<code>levenshtein</code>" in functions and "<code>char_length</code>" in functions
    api = pages["reference/api.html"]
    assert "freshet.View.to_arrow" in api and "freshet.testing.assert_fresh" in api
    assert "aju-11-time.svg" in pages["reference/benchmarks.html"]
