"""Folders and files of one user on a machine that others share.

Law: what is written below a private folder is read and changed by its user alone. The folder is the user's own, a
folder and not a link to one, and closed to others; files in it are opened without following links.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from freshet.errors import StateError

_REMEDY = "remove it, or give maintain() another folder as arena="


def default_arenas() -> Path:
    """Where arenas are on this machine if nobody says: a folder of this user in the temporary one."""
    return Path(tempfile.gettempdir()) / f"freshet-{os.getuid()}"


def private_folder(path: Path) -> None:
    """Makes the folder, or sees that it is private. StateError if it is another user's or no folder of its own."""
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
