"""Every error that Freshet raises for a user's mistake. Messages state the fact first, then the remedy."""

from __future__ import annotations

_WIDE, _BEFORE = 160, 60  # characters of a line in an error, and of those before its position
_SHOWN = 60  # characters of a value in an error
_FACT, _REMEDY = 170, 100  # characters of a message with long quotes


def brief(value: object) -> str:
    """A value as shown in an error: truncated if it is long."""
    if isinstance(value, str):
        size = len(value)
        return repr(value) if size <= _SHOWN else f"{value[:_SHOWN]!r}… ({size:,} characters)"
    if isinstance(value, bytes):
        size, shown = len(value), value[: _SHOWN // 2].hex().upper()
        return f"X'{shown}'" if size <= _SHOWN // 2 else f"X'{shown}'… ({size:,} bytes)"
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN:
        return f"a number of {value.bit_length():,} bits"
    try:
        shown = repr(value)
    except Exception:  # a user's object
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 2 * _SHOWN else shown[: 2 * _SHOWN] + "…"


class FreshetError(Exception):
    """Root of all errors that Freshet raises on purpose.

    Examples
    --------
    >>> import freshet
    >>> try:
    ...     freshet.connect().view("v")
    ... except freshet.FreshetError as e:
    ...     print(e)
    no view v; the views are none yet
    """


class SqlError(FreshetError):
    """SQL text that cannot be parsed or bound: unknown names, wrong types, syntax.

    Attributes
    ----------
    reason
        The message without position and text.
    text
        The SQL text, if the error has a position in it.
    line, column
        That position, counted from 1.

    Examples
    --------
    >>> import freshet
    >>> try:
    ...     freshet.connect().execute("SELECT b FROM t")
    ... except freshet.SqlError as e:
    ...     e.line, e.column
    (1, 15)
    """

    def __init__(
        self, message: str, text: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        self.reason = _readable(message)
        self.text = text
        self.line = line
        self.column = column
        super().__init__(self._render())

    def _render(self) -> str:
        if self.line is None:
            return self.reason
        where = f"line {self.line}, column {self.column}: {self.reason}"
        lines = (self.text or "").split("\n")
        if not 1 <= self.line <= len(lines):
            return where
        shown, before = _around(lines[self.line - 1], (self.column or 1) - 1)
        return f"{where}\n  {shown}\n  {' ' * before}^"


def _readable(message: str) -> str:
    """A message of one line that is short enough to read, whatever it quotes."""
    message = " ".join(line.strip() for line in message.split("\n"))
    if len(message) <= _FACT + _REMEDY:
        return message
    fact, _, remedy = message.rpartition("; ")
    return f"{_cut(fact, _FACT)}; {_cut(remedy, _REMEDY)}" if fact else _cut(remedy, _FACT + _REMEDY)


def _cut(text: str, most: int) -> str:
    """A text with its middle left out if it is long."""
    return text if len(text) <= most else f"{text[: most // 2].rstrip()} … {text[-most // 2 :].lstrip()}"


def _around(line: str, at: int) -> tuple[str, int]:
    """A line that fits a screen, truncated around a position, and the new position."""
    begin = max(0, min(at - _BEFORE, len(line) - _WIDE)) if len(line) > _WIDE else 0
    head, tail = "…" if begin else "", "…" if begin + _WIDE < len(line) else ""
    return head + line[begin : begin + _WIDE] + tail, at - begin + len(head)


class UnsupportedError(SqlError):
    """A feature that Freshet does not support; the message names it and the nearest thing that works.

    Examples
    --------
    >>> import freshet
    >>> try:
    ...     freshet.plan("SELECT RAND()", "CREATE TABLE t (a INT)")
    ... except freshet.UnsupportedError as e:
    ...     print(type(e).__name__)
    UnsupportedError
    """


class PlanError(FreshetError):
    """A plan that cannot be created, read or run, and why.

    Examples
    --------
    >>> import freshet
    >>> try:
    ...     freshet.Plan.from_json("{}")
    ... except freshet.PlanError as e:
    ...     print(type(e).__name__)
    PlanError
    """


class ChangeError(FreshetError):
    """A change that was refused; the whole transaction changed nothing.

    Attributes
    ----------
    reason
        The error and the remedy.
    table, row
        The table, and the number of the given row, counted from 0; None if the error is not about one row.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE t (a INT NOT NULL)")
    >>> try:
    ...     db.apply({"t": [{"a": 1}, {"a": None}]})
    ... except freshet.ChangeError as e:
    ...     e.table, e.row
    ('t', 1)
    """

    def __init__(self, reason: str, table: str | None = None, row: int | None = None) -> None:
        self.reason = reason
        self.table = table
        self.row = row
        where = [*([] if table is None else [f"table {table}"]), *([] if row is None else [f"row {row}"])]
        super().__init__(f"{', '.join(where)}: {reason}" if where else reason)


class EvaluationError(FreshetError):
    """An expression that has no value on some row under ANSI rules: overflow, division by zero, a failing cast."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        self.reason, self.row = reason, row
        super().__init__(reason)


class BudgetError(FreshetError):
    """An evaluation that was stopped: over its budget, or cancelled. It has changed nothing.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)").version
    1
    >>> try:
    ...     db.execute("SELECT a FROM t", rows=1)
    ... except freshet.BudgetError as e:
    ...     print(e)
    the answer has more than 1 rows; ask for less, or raise the limit
    """


class TooMuchTextError(EvaluationError):
    """More bytes of text than the rows of a batch may have together; use fewer rows."""


class StateError(FreshetError):
    """State that cannot be used: closed, dropped, past, or on disk and missing, damaged or in use by another process.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.close()
    >>> try:
    ...     db.version, db.nbytes()
    ... except freshet.StateError as e:
    ...     print(e)
    the database is closed; connect again
    """
