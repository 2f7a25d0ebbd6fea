"""Values that a job reads from the environment, or that are secrets by their name: used where they are needed, never
shown.

Law: everything that leaves this process (files, messages, command lines of other processes) contains such a value as it
was written in the job file, `${NAME}`, or as `***`. Jobs are compared by their text, and if a substituted value
determines which rows are read, by a slow digest of it; passwords within URLs are not part of the digest, so that they
can be changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

HIDDEN = "***"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SECRET_NAME = re.compile(
    r"(?i)secret|passw|pwd|token|credential|jaas|(access|api|private|account).?key|^sig(nature)?$"
)
#: Passwords within URLs: after the user's name, in Oracle's form of that, and as parameters.
_CREDENTIALS = (
    re.compile(r"(?<=://)([^\s/?#@]*:)[^\s/?#]*(@)"),
    re.compile(r"(:thin:[^\s/@]*/)[^\s@]*(@)"),
    re.compile(r"(?i)([?&;](?:[\w.-]*(?:secret|passw|pwd|token|credential|key)[\w.-]*|sig(?:nature)?)=)[^&;]*()"),
)
_SHORT = 4  # characters; shorter values are redacted only as whole words


class Filled(str):
    """A value of a job file with its variables substituted. `written`: as it is in the file."""

    written: str

    @classmethod
    def of(cls, value: str, written: str) -> Filled:
        made = cls(value)
        made.written = written
        return made


class Secrets:
    def __init__(self) -> None:
        self._shown: dict[str, str] = {}  # each hidden value, and its replacement

    def fill(self, text: str, missing: Callable[[str], str]) -> str:
        """The text with its variables substituted from the environment; `missing` is called for undefined ones."""

        def filled(match: re.Match[str]) -> str:
            value = os.environ.get(match[1])
            value = missing(match[1]) if value is None else value
            if value:
                self._shown[value] = match[0]
            return value

        filled_text = _VARIABLE.sub(filled, text)
        return text if filled_text == text else Filled.of(filled_text, text)

    def note(self, name: str, value: str) -> None:
        """Registers an option or setting: if it is a secret by its name, its value is hidden."""
        if value and is_secret(name):
            self._shown.setdefault(str(value), HIDDEN)

    def redacted(self, text: str) -> str:
        """A text that may be shown."""
        for value in sorted(self._shown, key=len, reverse=True):
            for form in {value, quote(value, safe=""), quote(value), quote_plus(value), json.dumps(value)[1:-1],
                         repr(value)[1:-1]}:  # fmt: skip
                pattern = re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
                text = re.sub(pattern, lambda _, shown=self._shown[value]: shown, text)  # type: ignore[misc]
        return without_credentials(text)


def is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def without_credentials(text: str) -> str:
    for pattern in _CREDENTIALS:
        text = pattern.sub(rf"\g<1>{HIDDEN}\g<2>", text)
    return text


def described(name: str, value: str, resolved: Callable[[str], str] = str) -> dict[str, str]:
    """An option in the form in which files may store it: as written, with a digest that identifies its value.
    `resolved`: the resolved value, for paths."""
    if not isinstance(value, Filled):
        return {name: without_credentials(resolved(value))}
    shown = without_credentials(value.written)
    record = {name: shown}
    if _VARIABLE.search(shown):
        meant, salt = without_credentials(resolved(str(value))).encode(), f"freshet {name} {shown}".encode()
        digest = hashlib.scrypt(meant, salt=salt, n=1 << 14, r=8, p=1, dklen=8)
        record[f"the value of {name}"] = f"hidden ({digest.hex()})"
    return record
