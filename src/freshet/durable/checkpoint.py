"""The checkpoint: every array of an arena in one file, with the other facts needed to continue from there.

The file is written next to the old one and takes its name when it is on disk, so there is always a complete one or
none. It is mapped privately: later writes to the arrays go to memory of this process, never to the file. Everything in
it is checksummed; words are summed page by page at the speed of memory, so that verifying all of it costs less than a
tenth of replaying the log. A checkpoint belongs to the code that wrote it: another version of Freshet, or of its
kernels, replays the log.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from freshet.state.arena import Arena, SavedArray, describe
from freshet.state.kernel_cache import code

_MAGIC = b"freshet checkpt\n"
_PAGE = 4096
_ALIGNED = 64


def write(path: Path, arena: Arena, facts: dict[str, Any], sync: bool) -> None:
    """Puts the checkpoint in place. If this fails, it raises OSError and the old one is still there."""
    arrays, at = {}, 0
    for array in arena:
        flat = array.data.reshape(-1)
        described = describe(array.dtype, array.columns, array.fill)
        arrays[array.name] = [described, at, flat.size, _sum(flat)]
        at += -(-flat.nbytes // _ALIGNED) * _ALIGNED
    head = json.dumps({"code": code(), "facts": facts, "arrays": arrays, "bytes": at}).encode()
    head += b" " * (-len(head) % _ALIGNED)
    fresh = path.with_name(path.name + ".new")
    try:
        with open(fresh, "wb") as file:
            lengths = np.array((len(head), zlib.crc32(head)), np.int64).tobytes()
            file.write(_MAGIC + lengths + bytes(_ALIGNED - len(_MAGIC) - len(lengths)) + head)
            for array in arena:
                flat = array.data.reshape(-1)
                file.write(flat.view(np.uint8).data)
                file.write(bytes(-flat.nbytes % _ALIGNED))
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def read(path: Path) -> tuple[dict[str, Any], dict[str, SavedArray]] | str:
    """The facts and the arrays of a checkpoint, or why it is not usable."""
    try:
        with open(path, "rb") as file:
            start = file.read(_ALIGNED)
            if len(start) < _ALIGNED or start[: len(_MAGIC)] != _MAGIC:
                return "it is not a checkpoint"
            length, checksum = np.frombuffer(start, np.int64, 2, len(_MAGIC)).tolist()
            size = os.fstat(file.fileno()).st_size
            if not 0 < length <= size:
                return "its head is damaged"
            head = file.read(length)
            if len(head) != length or zlib.crc32(head) != checksum:
                return "its head is damaged"
            facts = json.loads(head)
            if facts["code"] != code():
                return "another version of Freshet wrote it"
            first = _ALIGNED + length
            if size != first + facts["bytes"]:
                return "its size has changed"
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        return "it does not exist"
    except OSError as e:
        return f"it cannot be read: {e.strerror}"
    kept: dict[str, SavedArray] = {}
    for name, (described, at, count, wanted) in facts["arrays"].items():
        data = np.frombuffer(mapped, described[0], count, first + at)
        if _sum(data) != wanted:
            return f"its array {name} is damaged"
        kept[name] = described, data
    return facts["facts"], kept


def _sum(data: np.ndarray[Any, Any]) -> int:
    """A checksum that depends on every bit and on the order of pages."""
    raw = data.view(np.uint8)
    whole = len(raw) // _PAGE * _PAGE
    pages = raw[:whole].view(np.uint64).reshape(-1, _PAGE // 8).sum(axis=1, dtype=np.uint64)
    return zlib.crc32(raw[whole:].data, zlib.crc32(pages.data))
