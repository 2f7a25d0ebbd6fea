"""Ranges of addresses in which arrays grow in place, and pages that are there before they are needed.

The system allocates the pages of a range when they are touched, and clears them first. Kernels read arrays at random,
which needs huge pages: with small ones most reads would miss the TLB. But clearing a huge page may take milliseconds,
far longer than a small transaction. So the beginning of a range has small pages, as many arrays stay small, and while
the last prepared pages of a range are filled, a thread prepares the next huge one. If it is late, or the system cannot
prepare pages, they are cleared when they are touched.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
_LONGEST = min(PHYSICAL, 1 << 36)
_FLAGS = (
    mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
)
_HUGE = 1 << 21  # bytes of a huge page
_NEAR = 1 << 19  # bytes from the end of the prepared ones at which the next page is prepared
_POPULATE_WRITE = 23  # of Linux 5.14 and later; makes pages without changing what they hold


class Range:
    """Addresses for an array that grows. `map` holds them, from `start` on."""

    __slots__ = ("_prepared", "map", "start")  # _prepared: the bytes before which all pages are there, or will be

    def __init__(self, map: mmap.mmap) -> None:
        self.map, self.start = map, ctypes.addressof(ctypes.c_char.from_buffer(map))
        self._prepared = small = _HUGE + -self.start % _HUGE
        if hasattr(mmap, "MADV_HUGEPAGE") and len(map) > small:
            with suppress(OSError):  # a system without huge pages
                map.madvise(mmap.MADV_HUGEPAGE, small, len(map) - small)

    def __len__(self) -> int:
        return len(self.map)

    def prepare(self, used: int) -> None:
        """Has the next pages prepared if the array, of `used` bytes, will soon need them."""
        if used + _NEAR <= self._prepared:
            return
        begin = max(self._prepared, used - (self.start + used) % _HUGE)
        end = begin + _HUGE * (1 + (used + _NEAR - begin) // _HUGE)
        if end <= len(self.map):
            self._prepared = end
            _preparing.ask(self.map, self.start + begin, end - begin)


def reserve(nbytes: int) -> Range | None:
    """Reserves addresses for at least `nbytes` bytes, which read as zeros; None if the system refuses. The system
    reserves addresses even without memory for them, so impossible sizes are refused here."""
    if nbytes > PHYSICAL:
        raise MemoryError(f"an array of {nbytes:,} bytes; this machine has {PHYSICAL:,}")
    try:
        return Range(mmap.mmap(-1, max(_LONGEST, 2 * nbytes), _FLAGS))
    except (OSError, ValueError):
        return None


class _Preparing:
    """A thread that prepares pages, started when it is first needed."""

    def __init__(self) -> None:
        self.reset()
        os.register_at_fork(after_in_child=self.reset)  # threads do not survive a fork

    def reset(self) -> None:
        self._asked: SimpleQueue[tuple[mmap.mmap, int, int]] = SimpleQueue()
        self._thread: Thread | None = None

    def ask(self, map: mmap.mmap, address: int, nbytes: int) -> None:
        if sys.platform == "linux" and (self._thread is not None or self._start()):
            self._asked.put((map, address, nbytes))  # the map, so that its addresses stay its own meanwhile

    def _start(self) -> bool:
        thread = Thread(target=self._run, name="freshet-pages", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads, or Python is ending: pages are cleared when they are touched
            return False
        self._thread = thread
        return True

    def _run(self) -> None:
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        while True:
            map, address, nbytes = self._asked.get()
            advise(address, nbytes, _POPULATE_WRITE)
            del map


_preparing = _Preparing()
