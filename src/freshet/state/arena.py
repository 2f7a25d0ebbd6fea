"""The arena: named growable arrays, which hold all state.

An arena is in memory, or in a directory with one memory-mapped file for each array. In memory, an array that has become
large gets a range of addresses as large as all physical memory (pages.py): from then on it grows in place, in small
steps, without copying. Arrays with the same number of rows grow at
different times, so that no transaction pays for the growth of all of them. Attaching to a directory maps the files and
reads nothing else, so it costs O(number of arrays). An arena in memory may begin with arrays that were stored elsewhere
(`kept`), which are used without copying. New capacity always holds the array's `fill`. All bytes are counted by the
arena's `memory`, which may refuse an allocation.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from freshet.budget import Memory
from freshet.errors import StateError
from freshet.state import pages
from freshet.state.file_map import FileMap

_MANIFEST = "arena.json"
_LEAST = 64  # rows of the smallest array
_LARGE = 1 << 18  # bytes from which on an array gets a range of addresses
_STEP = 1 << 18  # bytes by which such an array grows, at most


SavedArray = tuple[list[Any], npt.NDArray[Any]]


def describe(dtype: npt.DTypeLike, columns: int, fill: int) -> list[Any]:
    return [np.dtype(dtype).str, columns, fill]


def ahead(name: str) -> float:
    """How far ahead an array grows, as a fraction of its size, or of a step in place."""
    return 0.5 + crc32(name.encode()) % 64 / 128


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Memory for an array; tests put fences around it."""
    return np.empty(shape, dtype)


class Growable:
    """An array whose `data` is replaced by a new array when it grows; readers must then read `data` again."""

    __slots__ = (
        "_ahead",
        "_file",
        "_inode",
        "_map",
        "_memory",
        "_range",
        "columns",
        "data",
        "dtype",
        "fill",
        "name",
        "watchers",
    )

    def __init__(
        self, name: str, dtype: npt.DTypeLike, columns: int, fill: int, file: Path | None, memory: Memory,
        kept: npt.NDArray[Any] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.dtype, self.columns, self.fill = name, np.dtype(dtype), columns, fill
        self._memory, self._ahead = memory, ahead(name)
        self._file = file
        self._map: FileMap | None = None
        self._range: pages.Range | None = None
        self._inode = 0
        self.watchers: list[Any] = []  # called after every growth, because they hold addresses
        if kept is not None:
            memory.take(kept.nbytes)
            self.data = self._shape(kept)
        elif file is not None and file.exists():
            self._remap(file.stat().st_size // self._row_bytes)
            memory.take(self.nbytes)
        else:
            self.data = self._shape(np.empty(0, self.dtype))
            self.grow(_LEAST)

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * max(self.columns, 1)

    def _shape(self, flat: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return flat.reshape(-1, self.columns) if self.columns else flat

    @property
    def capacity(self) -> int:
        return len(self.data)

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    def grow(self, rows: int) -> None:
        """Makes room for at least `rows` rows. If the array must be copied, it grows by at least half, so growth is
        O(1) amortized per row; otherwise the cost is proportional to the new room."""
        have = len(self.data)
        if rows <= have:
            return
        step = have if self._range is None else _STEP // self._row_bytes
        self.match(max(rows, have + int(step * self._ahead), _LEAST))

    def match(self, rows: int) -> None:
        """The same, without spare room."""
        have = len(self.data)
        if rows <= have:
            return
        self._memory.take((rows - have) * self._row_bytes)
        try:
            self._resize(rows, have)
        except BaseException:
            self._memory.give((rows - have) * self._row_bytes)
            raise
        self.changed()

    def _resize(self, rows: int, have: int) -> None:
        if self._file is not None:
            self._remap(rows, os.O_RDWR if have else os.O_RDWR | os.O_CREAT | os.O_EXCL)
            self.data[have:] = self.fill
            return
        wanted = rows * self._row_bytes
        if wanted >= _LARGE and (self._range is None or wanted > len(self._range)):
            self._into(pages.reserve(wanted), have)
        if self._range is not None and wanted <= len(self._range):
            self.data = self._mapped(self._range, rows)
            if self.fill:
                self.data[have:] = self.fill
            self._range.prepare(wanted)
            return
        bigger = allocate((rows, self.columns) if self.columns else (rows,), self.dtype)
        bigger[:have] = self.data
        bigger[have:] = self.fill
        self.data = bigger

    def _into(self, range: pages.Range | None, have: int) -> None:
        if range is not None:
            self._mapped(range, have)[...] = self.data
        self._range = range

    def _mapped(self, range: pages.Range, rows: int) -> npt.NDArray[Any]:
        return self._shape(np.frombuffer(range.map, self.dtype, rows * max(self.columns, 1)))

    def shrink(self, rows: int) -> None:
        """Frees the memory beyond that many rows, if it is most of the array. Files are not shrunk."""
        rows, have = max(rows, _LEAST), len(self.data)
        if self._file is not None or 2 * rows > have:
            return
        kept = Growable(self.name, self.dtype, self.columns, self.fill, None, Memory())
        kept.match(rows)
        kept.data[:rows] = self.data[:rows]
        self.data, self._range = kept.data[:rows], kept._range
        self._memory.give((have - rows) * self._row_bytes)
        self.changed()

    def changed(self) -> None:
        """Notifies listeners, which hold addresses or values computed from the contents."""
        for watcher in self.watchers:
            watcher()

    def _remap(self, rows: int, flags: int = os.O_RDWR) -> None:
        """Maps the file at the length of that many rows. OSError if it is not the file mapped before, with the same
        length: if a file was deleted, truncated or replaced, rows would be read as zeros."""
        assert self._file is not None
        fd = os.open(self._file, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            found = os.fstat(fd)
            if self._map is not None and (found.st_ino, found.st_size) != (self._inode, self.nbytes):
                raise OSError(errno.ESTALE, "an array's file changed while it was in use", str(self._file))
            if found.st_size < rows * self._row_bytes:
                # Allocates the blocks: a full disk is then an error here and not a crash at the first write.
                os.posix_fallocate(fd, 0, rows * self._row_bytes)
            self._map, self._inode = FileMap(fd, rows * self._row_bytes), found.st_ino
        finally:
            os.close(fd)
        self.data = self._shape(np.frombuffer(self._map.buffer, self.dtype))

    def reset(self) -> None:
        self.data[...] = self.fill

    def flush(self) -> None:
        if self._map is not None and self._file is not None:
            self._map.flush()

    def release(self) -> None:
        """Frees the memory permanently."""
        self.watchers.clear()
        self._memory.give(self.nbytes)
        self.data, self._map, self._range = self._shape(np.empty(0, self.dtype)), None, None


class Arena:
    """A namespace of growable arrays. `Arena()` is in memory, `Arena(directory)` in files under it. `kept`: flat arrays
    by name, each with its description."""

    def __init__(
        self, directory: str | os.PathLike[str] | None = None, kept: Mapping[str, SavedArray] | None = None,
        memory: Memory | None = None,
    ) -> None:  # fmt: skip
        self.memory = Memory() if memory is None else memory
        self._arrays: dict[str, Growable] = {}
        self.directory = None if directory is None else Path(directory)
        self._kept = dict(kept or {})
        self._known: dict[str, list[Any]] = {name: described for name, (described, _) in self._kept.items()}
        if self.directory is not None:
            self.directory.mkdir(0o700, parents=True, exist_ok=True)
            manifest = self.directory / _MANIFEST
            if manifest.exists():
                try:
                    self._known = json.loads(manifest.read_text())
                except ValueError as e:
                    remedy = "restore it or start with an empty folder"
                    raise StateError(f"{manifest} is not readable ({e}); {remedy}") from e

    def array(self, name: str, dtype: npt.DTypeLike, columns: int = 0, fill: int = 0) -> Growable:
        """The array of that name, attached if it exists, created otherwise. `columns` 0 means one-dimensional."""
        if name in self._arrays:
            return self._arrays[name]
        described = describe(dtype, columns, fill)
        known = self._known.get(name)
        if known is not None and known != described:
            raise StateError(f"array {name} was stored as {known}, not {described}; it belongs to another version")
        file = None
        if self.directory is not None:
            file = self.directory / (name.replace("/", ".") + ".bin")
            if known is None:
                file.unlink(missing_ok=True)
                self._known[name] = described
                self._write_manifest()
            elif not file.exists():
                raise StateError(f"{file} is missing; restore it or start with an empty folder")
        made = Growable(name, dtype, columns, fill, file, self.memory, self._kept.pop(name, (described, None))[1])
        self._arrays[name] = made
        return made

    def drop(self, prefix: str) -> None:
        """Deletes all arrays whose name starts with `prefix`, and their files."""
        for name in [n for n in {*self._arrays, *self._known} if n.startswith(prefix)]:
            gone = self._arrays.pop(name, None)
            self._known.pop(name, None)
            self._kept.pop(name, None)
            if self.directory is not None:
                (self.directory / (name.replace("/", ".") + ".bin")).unlink(missing_ok=True)
            if gone is not None:
                self.memory.give(gone.nbytes)
        self._write_manifest()

    def move(self, prefix: str, to: str, but_for: tuple[str, ...] = ()) -> None:
        """Gives other names to all arrays in memory whose names start with `prefix`, except those in which one of
        `but_for` follows. Nobody may watch them any more."""
        assert self.directory is None, "files keep their names"
        every: tuple[dict[str, Any], ...] = (self._arrays, self._known, self._kept)
        for kept in every:
            for name in [n for n in kept if n.startswith(prefix) and not n.startswith(but_for, len(prefix))]:
                kept[to + name[len(prefix) :]] = kept.pop(name)
        for name, array in self._arrays.items():
            array.name = name

    def forget_watchers(self, prefix: str) -> None:
        """Called when all operators with state in these arrays were closed."""
        for name, array in self._arrays.items():
            if name.startswith(prefix):
                array.watchers.clear()

    def _write_manifest(self) -> None:
        if self.directory is None:
            return
        target = self.directory / _MANIFEST
        fresh = target.with_suffix(".new")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(json.dumps(self._known))
        os.replace(fresh, target)

    def scope(self, prefix: str) -> Scope:
        return Scope(self, prefix)

    def nbytes(self, prefix: str = "") -> int:
        return sum(a.nbytes for n, a in self._arrays.items() if n.startswith(prefix))

    def copied(self, prefixes: tuple[str, ...], memory: Memory) -> Arena:
        """An arena in memory with the arrays of these names as they are now; BudgetError before anything is copied
        where `memory` does not allow it."""
        found = [a for name, a in self._arrays.items() if name.startswith(prefixes)]
        nbytes = sum(a.nbytes for a in found)
        memory.take(nbytes)
        memory.give(nbytes)  # each array is counted when it is attached
        kept: dict[str, SavedArray] = {}
        for array in found:
            copy = allocate((array.data.size,), array.dtype)
            copy[...] = array.data.reshape(-1)
            kept[array.name] = describe(array.dtype, array.columns, array.fill), copy
        return Arena(kept=kept, memory=memory)

    def __iter__(self) -> Iterator[Growable]:
        return iter(self._arrays.values())

    def flush(self) -> None:
        for a in self._arrays.values():
            a.flush()

    def release(self) -> None:
        """Frees all memory at once; files remain. Existing references to arrays see empty ones from now on. Otherwise
        the memory might not be freed until Python collects cycles, which depends on the number of objects, not on their
        size."""
        for a in self._arrays.values():
            a.release()

    def __del__(self) -> None:
        self.memory.give(self.nbytes())


class Scope:
    """The part of an arena whose names have a prefix."""

    def __init__(self, arena: Arena, prefix: str) -> None:
        self.arena, self.prefix = arena, prefix

    def array(self, name: str, dtype: npt.DTypeLike, columns: int = 0, fill: int = 0) -> Growable:
        return self.arena.array(f"{self.prefix}/{name}", dtype, columns, fill)

    def scope(self, prefix: str) -> Scope:
        return Scope(self.arena, f"{self.prefix}/{prefix}")

    def nbytes(self) -> int:
        return self.arena.nbytes(self.prefix + "/")

    def drop(self) -> None:
        self.arena.drop(self.prefix + "/")
