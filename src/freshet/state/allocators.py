"""Returns freed memory to the system.

Law: an allocator keeps freed memory for later allocations, which is right while a database works, and wrong after most
of it was dropped. Code that has freed much memory calls `give_back`; it takes milliseconds. The compiler is needed only
while kernels are loaded or compiled: `give_back_compiler` gives back the pages of its library, which are read again
from its file when they are needed.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding
import pyarrow as pa

#: Only glibc has it.
_trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
_advise: Any = getattr(ctypes.CDLL(None), "madvise", None) if sys.platform == "linux" else None
_NOT_NEEDED = 4  # MADV_DONTNEED: of pages of a file that were not written, it loses nothing


def give_back() -> None:
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


def give_back_compiler() -> None:
    for start, length in _compiler():
        _advise(ctypes.c_void_p(start), ctypes.c_size_t(length), _NOT_NEEDED)


@cache
def _compiler() -> list[tuple[int, int]]:
    """The addresses and lengths of the compiler's code and constants in memory: parts of its file that nobody can
    write, and of which no page has been replaced by one that was written."""
    found: list[tuple[int, int]] = []
    if _advise is None:
        return found
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return found
    library, part, written = os.path.realpath(llvmlite.binding.ffi.lib._name), (0, 0), True
    for line in lines:
        what, first, *_ = words = line.split()
        if not what.endswith(":"):
            start, end = (int(each, 16) for each in what.split("-"))
            part, written = (start, end - start), first not in ("r--p", "r-xp") or words[-1] != library
        elif what in ("Anonymous:", "Swap:"):
            written |= first != "0"
            if what == "Swap:" and not written:
                found.append(part)
    return found
