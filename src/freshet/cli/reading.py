"""Reads files given to commands, or refuses them with a message that says what they are instead."""

from __future__ import annotations

from pathlib import Path

from freshet.errors import StateError

MOST = 16 << 20  # bytes; SQL and plans are far smaller, so a larger file was given by mistake


def read_text(path: str | Path) -> str:
    check_file(path)
    size = Path(path).stat().st_size
    if size > MOST:
        raise StateError(f"{path} has {size >> 20:,} MB, and at most {MOST >> 20} are read; is it the file you mean?")
    content = Path(path).read_bytes()
    if b"\0" in content:
        raise StateError(f"{path} is not UTF-8 text (it has NUL bytes); save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise StateError(f"{path} is not UTF-8 text ({e.reason} at byte {e.start}); save it as UTF-8") from None


def check_file(path: str | Path) -> None:
    """Checks that the path exists and is a file."""
    if not Path(path).exists():
        raise StateError(f"{path}: no such file; correct the path")
    if Path(path).is_dir():
        raise StateError(f"{path} is a folder; name a file in it")
