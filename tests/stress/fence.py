"""Arrays of the state between protected pages. Kernels access most of the state through raw addresses, which bounds
checks do not cover. With fences, an access beyond the end of an array, or to one that was replaced and freed, stops the
process immediately, and faulthandler shows where. The memory of freed arrays is not reused for a while, so that stale
addresses cause a fault.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from freshet.state import arena, pages

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_NOBODY, _KEPT = 0, 4096  # protected pages; freed arrays whose addresses are not reused
_freed: deque[tuple[int, int]] = deque()


def build() -> None:
    """From here on arrays in memory stand behind fences."""
    arena.allocate = _fenced
    pages.reserve = lambda nbytes: None  # no array grows in place


def _fenced(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    whole = pages + 2 * mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = _libc.mmap(None, whole, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if start in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"no {whole} bytes behind a fence")
    _libc.mprotect(start, mmap.PAGESIZE, _NOBODY)
    _libc.mprotect(start + mmap.PAGESIZE + pages, mmap.PAGESIZE, _NOBODY)
    begin = start + mmap.PAGESIZE + pages - size
    held = (ctypes.c_char * size).from_address(begin)
    weakref.finalize(held, _free, start, whole)
    flat = np.frombuffer(memoryview(held), np.uint8) if size else np.empty(0, np.uint8)
    flat[...] = 0xA5
    return flat.view(dtype).reshape(shape)


def _free(start: int, whole: int) -> None:
    _libc.mprotect(start, whole, _NOBODY)
    _freed.append((start, whole))
    if len(_freed) > _KEPT:
        _libc.munmap(*_freed.popleft())
