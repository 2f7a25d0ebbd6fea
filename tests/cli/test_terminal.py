"""Commands on a terminal: the prompt with its history and completion, progress, colours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("prompt_toolkit")
pytest.importorskip("rich")

from freshet.cli import progress
from tests.cli.terminal import ROOT, readable, terminal
from tests.web.pages import wait_until


def test_the_prompt(tmp_path: Path) -> None:
    database = str(tmp_path / "db")
    with terminal("sql", "--db", database, XDG_STATE_HOME=str(tmp_path)) as prompt:
        prompt.sees("freshet=>")
        prompt.type("CREATE TABLE purchases (id BIGINT PRIMARY KEY, price BIGINT);\r")
        prompt.sees("freshet=>")
        prompt.type("CREATE MATERIALIZED VIEW total AS\rSELECT SUM(price) AS total FROM purchases;\r")
        prompt.sees("->")  # a statement continues until its semicolon
        prompt.sees("view total: 1 row")
        prompt.type("INSERT INTO purchases VALUES (1, 20), (2, 22);\r")
        prompt.sees("+1 total: total=42")
        prompt.type("SELECT id FROM purch")
        prompt.sees("purchases")  # is offered
        prompt.type("\t")
        prompt.sees("ases")
        prompt.type(" WHERE price > 20;\r")
        prompt.sees("1 row")
        prompt.type("SELECT nothing FROM purchases;\r")
        prompt.sees("no column nothing; purchases has id, price")  # and the prompt continues
        prompt.type("\\d purchases\r")
        prompt.sees("id     BIGINT  False     True")
        prompt.type("\\d none\r")
        prompt.sees("no table or view none; there are purchases, total")
        prompt.type("\\explain total\r")
        prompt.sees("class      ")
        prompt.type("\\i nowhere.sql\r")
        prompt.sees("nowhere.sql: no such file; correct the path")
        prompt.type("\\explain SELECT price FROM purchases\r")
        prompt.sees("class      q-hierarchical")
        prompt.type("\\?\r")
        prompt.sees("tables and views")
        prompt.type("help\r")
        prompt.sees("watch v")
        prompt.type(".timing on\r")
        prompt.sees("timing is on")
        prompt.type("exit\r")
        prompt.ends()
    with terminal("sql", "--db", database, XDG_STATE_HOME=str(tmp_path)) as prompt:
        prompt.sees("freshet=>")
        prompt.type(11 * "\x1b[A" + "\r")  # up, past nine commands and a mistake, to the query of the last time
        prompt.sees("1 row")
        prompt.type("\x03")  # Ctrl-C only drops the line
        prompt.sees("freshet=>")
        prompt.type("\x04")
        prompt.ends()
    assert "SELECT id FROM purchases" in (tmp_path / "freshet" / "history").read_text()


def test_bars_and_colours_on_a_terminal() -> None:
    with terminal("bench", "--source", "market", "--scale", "0.3", "--query", "spread", "--seconds", "2") as shown:
        shown.sees("measuring spread ━")
        assert "state MB" in shown.ends()
    with terminal("check", "nowhere.sql") as shown:
        assert "\x1b[31mfreshet:\x1b[0m nowhere.sql: no such file" in shown.ends(2)
    with terminal("check", "nowhere.sql", NO_COLOR="1") as shown:
        assert "\x1b" not in shown.ends(2)


def long_stream(folder: Path) -> tuple[str, ...]:
    """A command that takes more than a moment: λ of a long sequence."""
    path, moments = folder / "changes.parquet", np.arange(2_000_000)
    pq.write_table(pa.table({"x": moments // 2, "_weight": 1 - 2 * (moments % 2)}), path)
    return ("enclosure", str(path))


def test_what_takes_a_while_is_shown_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A spinner with the current operation, which the answer then replaces."""
    with terminal(*long_stream(tmp_path)) as shown:
        raw = shown.ends()
    before, _, after = raw.partition("changes    2,000,000")
    assert "computing λ" in before and before.endswith("\x1b[2K"), "the line is cleared before the answer"
    assert after and "computing" not in after and "\x1b" not in after


def test_no_progress_is_written_to_a_pipe(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "freshet.cli", *long_stream(tmp_path)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "FORCE_COLOR": "1"},
    )  # fmt: skip
    assert done.stderr == "" and "\x1b" not in done.stdout


@pytest.mark.long
def test_kernels_are_compiled_with_progress(tmp_path: Path) -> None:
    """An empty cache on a terminal: how many are done. It is not waited for."""
    with terminal("sql", FRESHET_CACHE=str(tmp_path)) as shown:
        shown.sees("compiling kernels, once per installation: ")
        shown.sees(" of ")


def test_words_and_bars_within_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    line, other = os.openpty()
    with os.fdopen(other, "w") as screen, os.fdopen(line, "rb"):
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setattr(progress, "MOMENT", 0.0)
        with progress.working("outer", of=4) as work:
            wait_until(lambda: work.visible)
            work.say("counting", 3, 4)
            with progress.working("inner") as same:
                assert same is work and (work.what, work.of) == ("inner", None)
                print("above", file=sys.stderr)
            assert (work.what, work.done, work.of) == ("counting", 3, 4)
        assert not work.visible and sys.stderr is screen
        content = b""
        while readable(line, 0.2):
            content += os.read(line, 65_536)
    written = content.decode()
    assert "outer" in written and "━" in written and "above" in written
    assert written.rstrip("\n").endswith("\x1b[2K")
