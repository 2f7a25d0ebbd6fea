"""Returns freed memory to the system.

Law: an allocator keeps freed memory for later allocations, which is right while a database works, and wrong after most
of it was dropped. Code that has freed much memory calls `give_back`; it takes milliseconds.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pyarrow as pa

#: Only glibc has it.
_trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def give_back() -> None:
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)
