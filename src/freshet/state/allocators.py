"""Returns freed memory to the system.

Law: an allocator keeps freed memory for later allocations, which is right while a database works, and wrong after most
of it was dropped. Code that has freed much memory calls `give_back`; it takes milliseconds.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pyarrow as pa

try:
    _trim: Any = ctypes.CDLL(None).malloc_trim
except (AttributeError, OSError, TypeError):  # a C library other than glibc
    _trim = None


def give_back() -> None:
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)
