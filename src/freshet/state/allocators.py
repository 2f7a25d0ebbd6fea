"""Memory that was freed goes back to the system.

Law: an allocator keeps what is freed for what comes next, which is right while a database works and wrong when most of
it has gone. Whoever has given much back calls `give_back`; it takes milliseconds.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pyarrow as pa

try:
    _trim: Any = ctypes.CDLL(None).malloc_trim
except (AttributeError, OSError, TypeError):  # another C library than glibc
    _trim = None


def give_back() -> None:
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)
