"""A command on a terminal of its own: keyboard input and screen output."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_ACROSS = re.compile(r"\x1b\[(\d*)C")  # how blanks are drawn
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], line: int) -> None:
        self.process, self.line, self.raw = process, line, ""

    def type(self, text: str) -> None:
        os.write(self.line, text.encode())

    def sees(self, wanted: str, seconds: float = 120) -> str:
        """Waits until this text appears on the screen after the previous one; returns everything up to it."""
        end = time.monotonic() + seconds
        while wanted not in (shown := _CONTROL.sub("", _ACROSS.sub(lambda m: " " * int(m[1] or 1), self.raw))):
            assert time.monotonic() < end, f"{wanted!r} did not come; there is {shown!r}"
            self._read(0.1)
        self.raw = ""
        return shown

    def ends(self, code: int = 0, seconds: float = 60) -> str:
        """Waits for the end; everything since it was last looked at, colours and all."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, self.raw
            self._read(0.1)
        self._read(0.1)
        assert self.process.returncode == code, self.raw
        return self.raw

    def _read(self, seconds: float) -> None:
        while readable(self.line, seconds):
            with suppress(OSError):  # the other end is gone
                data = os.read(self.line, 65_536)
                if data:
                    self.raw += data.decode(errors="replace")
                    seconds = 0.0
                    continue
            return


def readable(line: int, seconds: float) -> bool:
    """Whether something can be read. Unlike select(), poll() takes file descriptors above 1,023."""
    waiting = select.poll()
    waiting.register(line, select.POLLIN)
    return bool(waiting.poll(seconds * 1_000))


@contextmanager
def terminal(*arguments: str, **environment: str) -> Iterator[Terminal]:
    """`freshet` with these arguments."""
    line, other = os.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    given = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
    given.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "freshet.cli", *arguments], stdin=other, stdout=other, stderr=other,
        env={**given, **environment}, start_new_session=True,
    )  # fmt: skip
    os.close(other)
    try:
        yield Terminal(process, line)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(line)
