"""The prompt on a terminal: line editing with history, completion and colours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import freshet
from freshet.cli.session import SqlSession, is_command
from freshet.cli.terminal import lacking, refuse
from freshet.errors import FreshetError

_WORDS = [
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "JOIN", "LEFT", "ON", "AND", "OR", "NOT",
    "EXISTS", "IN", "BETWEEN", "LIKE", "AS", "DISTINCT", "UNION", "ALL", "EXCEPT", "INTERSECT", "CASE", "WHEN",
    "THEN", "ELSE", "END", "COUNT", "SUM", "AVG", "MIN", "MAX", "CREATE", "TABLE", "MATERIALIZED", "VIEW",
    "PRIMARY", "KEY", "INSERT", "INTO", "VALUES", "DELETE", "UPDATE", "SET", "DROP", "SHOW", "TABLES", "VIEWS",
    "DESCRIBE", "EXPLAIN", "ANALYZE", "COPY", "TO", "BIGINT", "INT", "STRING", "BINARY", "DECIMAL", "DATE",
    "TIMESTAMP", "DOUBLE", "BOOLEAN", "NULL",
]  # fmt: skip


def converse(session: SqlSession) -> int:
    try:
        ask = _prompt(lambda: [*session.names(), *_WORDS])
    except ImportError:
        raise lacking("prompt_toolkit") from None
    print(f"Freshet {freshet.__version__}; \\? for help")
    while True:
        try:
            text = ask()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            if not session.execute(text):
                return 0
        except FreshetError as e:
            refuse(e)
        except OSError as e:
            refuse(f"{e.filename}: {e.strerror}")


def _prompt(words: Callable[[], list[str]]) -> Callable[[], str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    class Words(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            begun = document.get_word_before_cursor()
            for word in words() if begun else ():
                if word.lower().startswith(begun.lower()):
                    yield Completion(word, start_position=-len(begun))

    bindings = KeyBindings()
    kept: PromptSession[str]

    @Condition
    def unfinished() -> bool:
        text = kept.default_buffer.text
        return bool(text.strip()) and not is_command(text) and not text.rstrip().endswith(";")

    @bindings.add("enter", filter=unfinished)
    def another_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "freshet"
    folder.mkdir(0o700, parents=True, exist_ok=True)
    kept = PromptSession(
        "freshet=> ", history=FileHistory(str(folder / "history")), completer=Words(), multiline=True,
        key_bindings=bindings, lexer=PygmentsLexer(SqlLexer), prompt_continuation="      -> ",
    )  # fmt: skip

    @bindings.add("enter", filter=~unfinished)
    def done(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return kept.prompt
