"""Access to the folder of a database: one process that writes, any number that read.

The writer holds a lock of the operating system on the file `lock`, which ends with the process however that ends; the
file also holds the id of that process. A process made by fork has a copy of the database in memory, but not the lock:
it releases what it has inherited, and its operations are refused.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import weakref
from pathlib import Path

from freshet.errors import StateError

_LOCK = "lock"
_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


class FolderLock:
    """The right to write to a folder, until it is released. `made`: the folders that were created."""

    def __init__(self, path: Path) -> None:
        self.path, self._fd = path, -1
        check_name(path)
        self.made = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):  # on a full disk the lock must suffice
                os.ftruncate(self._fd, 0)
                os.pwrite(self._fd, str(os.getpid()).encode(), 0)
        except (FileExistsError, NotADirectoryError):
            raise StateError(f"{path} is a file, not a folder; give the folder of a database") from None
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            self.release()
            raise StateError(
                f"{path} is in use by process {holder}; close it there, or read it with read_only=True"
            ) from None
        except OSError as e:
            self.release()
            if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StateError(f"{path} cannot be opened ({e.strerror}); free space, then try again") from None
            raise StateError(
                f"{path} cannot be written to ({e.strerror}); grant write access, or open it with read_only=True"
            ) from None
        _held.add(self)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.release()


def _let_go() -> None:
    for claim in list(_held):
        with contextlib.suppress(OSError):
            claim.release()
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


def check_name(path: Path) -> None:
    if "\0" in str(path):
        raise StateError(f"{str(path)!r} contains a zero character, which no folder name may have; leave it out")


def check_readable(path: Path) -> None:
    check_name(path)
    if path.exists() and not path.is_dir():
        raise StateError(f"{path} is a file, not a folder; give the folder of a database")
    if not path.is_dir():
        raise StateError(f"there is no folder {path}; open one that holds a database, or leave out read_only")
