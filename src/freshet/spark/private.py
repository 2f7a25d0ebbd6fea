"""Private folders and files of one user on a shared machine.

Law: only the user can read and change what is below a private folder. The folder belongs to the user, is not a link,
and is closed to others; files in it are opened without following links.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from freshet.errors import StateError

_REMEDY = "remove it, or give maintain() another folder as arena="


def default_arenas() -> Path:
    """The default folder of arenas on this machine: a folder of this user in the temporary folder."""
    return Path(tempfile.gettempdir()) / f"freshet-{os.getuid()}"


def private_folder(path: Path) -> None:
    """Creates the folder, or checks that it is private. StateError if it belongs to another user or is not a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode):
            what = "a link" if stat.S_ISLNK(found.st_mode) else "a file"
            raise StateError(f"{path} is {what}, and must be a folder; {_REMEDY}") from None
        if found.st_uid != os.getuid():
            raise StateError(f"{path} belongs to user {found.st_uid}, and this is {os.getuid()}; {_REMEDY}") from None
        if found.st_mode & 0o077:
            os.chmod(path, 0o700, follow_symlinks=False)


def given_folder(path: Path) -> None:
    """The same for a folder that the user named: it may be a link, and may be the system's, if others cannot rename
    what is in it."""
    if not path.exists():
        private_folder(path)
        return
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise StateError(f"{path} is a file, and must be a folder; {_REMEDY}")
    if found.st_uid not in (0, os.getuid()):
        raise StateError(f"{path} belongs to user {found.st_uid}, and this is {os.getuid()}; give another as arena=")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise StateError(f"everybody can write to {path}; close it to others (chmod o-w), or give another as arena=")


def open_private(path: Path, flags: int) -> int:
    """Opens a file for this user alone; a link is an OSError."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def write_private(path: Path, text: str) -> None:
    with open(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
        file.write(text)
