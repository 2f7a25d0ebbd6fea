"""What commands do on a terminal: the prompt with its history and completion, progress, colours."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("prompt_toolkit")
pytest.importorskip("rich")

from tests.cli.terminal import terminal


def test_the_prompt(tmp_path: Path) -> None:
    database = str(tmp_path / "db")
    with terminal("sql", "--db", database, XDG_STATE_HOME=str(tmp_path)) as prompt:
        prompt.sees("freshet=>")
        prompt.type("CREATE TABLE purchases (id BIGINT PRIMARY KEY, price BIGINT);\r")
        prompt.sees("freshet=>")
        prompt.type("CREATE MATERIALIZED VIEW total AS\rSELECT SUM(price) AS total FROM purchases;\r")
        prompt.sees("->")  # a statement goes on until its semicolon
        prompt.sees("view total: 1 rows")
        prompt.type("INSERT INTO purchases VALUES (1, 20), (2, 22);\r")
        prompt.sees("+1 total: total=42")
        prompt.type("SELECT id FROM purch")
        prompt.sees("purchases")  # is offered
        prompt.type("\t")
        prompt.sees("ases")
        prompt.type(" WHERE price > 20;\r")
        prompt.sees("1 row")
        prompt.type("SELECT nothing FROM purchases;\r")
        prompt.sees("no column nothing; purchases has id, price")  # and the prompt goes on
        prompt.type("\\d purchases\r")
        prompt.sees("BIGINT NOT NULL")
        prompt.type("\\d none\r")
        prompt.sees("no table or view none; there are purchases, total")
        prompt.type("\\explain total\r")
        prompt.sees("class      ")
        prompt.type("\\i nowhere.sql\r")
        prompt.sees("nowhere.sql: No such file or directory")
        prompt.type("\\?\r")
        prompt.sees("tables and views")
        prompt.type("\\q\r")
        prompt.ends()
    with terminal("sql", "--db", database, XDG_STATE_HOME=str(tmp_path)) as prompt:
        prompt.sees("freshet=>")
        prompt.type(8 * "\x1b[A" + "\r")  # up, past six commands and a mistake, to the query of the last time
        prompt.sees("1 row")
        prompt.type("\x03")  # Ctrl-C only drops the line
        prompt.sees("freshet=>")
        prompt.type("\x04")
        prompt.ends()
    assert "SELECT id FROM purchases" in (tmp_path / "freshet" / "history").read_text()


def test_progress_and_colours_on_a_terminal_only() -> None:
    bench = ("bench", "--source", "market", "--scale", "0.002", "--seconds", "1")
    with terminal(*bench) as shown:
        shown.sees("measuring")
        assert "bids that meet an ask" in shown.ends()
    with terminal("check", "nowhere.sql") as shown:
        assert "\x1b[31mfreshet:\x1b[0m nowhere.sql: No such file" in shown.ends(2)
    with terminal("check", "nowhere.sql", NO_COLOR="1") as shown:
        assert "\x1b" not in shown.ends(2)
