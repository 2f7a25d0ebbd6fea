"""Values that a job takes from the environment, or that are secrets by their name: used where they are wanted, shown
nowhere.

Law: whatever leaves this process (files, messages, command lines of others) has such a value as it was written in the
job file, `${NAME}`, or as `***`. Jobs are compared by what was written, and where a filled-in value says which rows
are meant, by a digest of it that is slow to guess; passwords within addresses are left out of that, so that they can
be changed.
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
#: Passwords within addresses: after the user's name, Oracle's form of that, and as parameters.
_CREDENTIALS = (
    re.compile(r"(?<=://)([^\s/?#@]*:)[^\s/?#]*(@)"),
    re.compile(r"(:thin:[^\s/@]*/)[^\s@]*(@)"),
    re.compile(r"(?i)([?&;](?:[\w.-]*(?:secret|passw|pwd|token|credential|key)[\w.-]*|sig(?:nature)?)=)[^&;]*()"),
)
_SHORT = 4  # characters; shorter values are taken for the value only where they stand alone


class Filled(str):
    """A value of a job file whose variables are filled in. `written`: as it stands in the file."""

    written: str

    @classmethod
    def of(cls, value: str, written: str) -> Filled:
        made = cls(value)
        made.written = written
        return made


class Secrets:
    def __init__(self) -> None:
        self._shown: dict[str, str] = {}  # what is hidden, and what stands for it

    def fill(self, text: str, missing: Callable[[str], str]) -> str:
        """The text with its variables from the environment; `missing` says what becomes of one that is not there."""

        def filled(match: re.Match[str]) -> str:
            value = os.environ.get(match[1])
            value = missing(match[1]) if value is None else value
            if value:
                self._shown[value] = match[0]
            return value

        found = _VARIABLE.sub(filled, text)
        return text if found == text else Filled.of(found, text)

    def note(self, name: str, value: str) -> None:
        """An option or setting: one that is a secret by its name is hidden, whoever gave its value."""
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
    """An option as a file may keep it: as it was written, and what tells its value from others. `resolved`: what the
    value means, for paths."""
    if not isinstance(value, Filled):
        return {name: without_credentials(resolved(value))}
    shown = without_credentials(value.written)
    found = {name: shown}
    if _VARIABLE.search(shown):
        meant, salt = without_credentials(resolved(str(value))).encode(), f"freshet {name} {shown}".encode()
        digest = hashlib.scrypt(meant, salt=salt, n=1 << 14, r=8, p=1, dklen=8)
        found[f"the value of {name}"] = f"hidden ({digest.hex()})"
    return found
