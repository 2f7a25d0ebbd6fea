"""Files mapped into memory, without being kept open.

Law: a mapping shares the file's bytes until nobody refers to its buffer any more. Python's own mappings keep the file
open as long: an arena has hundreds of arrays, and a process may often have only 1,024 open files.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FAILED = ctypes.c_void_p(-1).value
_SYNC = 0x10 if os.uname().sysname == "Darwin" else 4  # MS_SYNC


class FileMap:
    """The first `nbytes` bytes of a file, which may be closed afterwards."""

    __slots__ = ("_address", "buffer")

    def __init__(self, fd: int, nbytes: int) -> None:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, nbytes, access, mmap.MAP_SHARED, fd, 0)
        if address in (None, _FAILED):
            raise _error()
        self._address: int = address
        held = (ctypes.c_char * nbytes).from_address(address)
        # Not at exit: arrays over the buffer may outlive this module.
        weakref.finalize(held, _libc.munmap, address, nbytes).atexit = False
        self.buffer = memoryview(held)  # which refers to it

    def flush(self) -> None:
        if _libc.msync(self._address, len(self.buffer), _SYNC):
            raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
