"""The cache of compiled kernels, and the compilation of missing ones.

Law: a process attaches a kernel when it first calls it (database/rehearsal.py calls those of a view when the view is
created). A kernel in the folder need not be compiled; a missing one is compiled once, however many processes start at
the same time: each claims a kernel before it compiles it, and waits for those claimed by others. A claim is a lock on
the folder, so it ends with its process.

The folder's name is a digest of all that code depends on: the sources of kernels, because numba notices a change in a
kernel's own file only and not in one it calls from another file; the compiler; the processor; the settings that change
code. Constants that a kernel has from files without kernels are in its own stamp. Nothing depends on where Freshet is
installed, so a folder may be copied to other machines with the same processor. A wheel has such folders inside, for
levels that many processors have (processor.py); where one fits, nothing is compiled.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import caching, config, sigutils
from numba.core.dispatcher import Dispatcher
from numba.core.runtime.nrt import rtsys

from freshet.state.loading import CachedKernels
from freshet.state.processor import compiling_for, levels, target
from freshet.version import __version__

_PACKAGE = Path(__file__).resolve().parent.parent
_SHIPPED = _PACKAGE / "compiled"  # folders that came with the installation
_SETTINGS = ("BOUNDSCHECK", "OPT", "ENABLE_AVX")
_MARKS = tuple(b"@" + word for word in (b"kernel", b"inlined", b"intrinsic"))  # of files with code that is compiled
_PATIENCE = 120.0  # seconds to wait for another process to compile a kernel
_HELPED = 4  # kernels to compile that make a second process worth its start
_ALL = """
import freshet.database.db, freshet.state.xxhash
from freshet.state.kernel_cache import KERNELS
KERNELS.compile()
"""
_HELP = _ALL.replace("compile()", "compile(helping=True)")


def _stamp() -> bytes:
    """A digest of everything that compiled code depends on, except the processor."""
    settings = [getattr(config, name, None) for name in _SETTINGS]
    versions = numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
    digest = hashlib.sha256(repr((settings, versions)).encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if any(mark in text for mark in _MARKS):
            digest.update(text)
    return digest.digest()


def _name(stamp: bytes, processor: tuple[str, str]) -> str:
    return f"kernels-{hashlib.sha256(stamp + repr(processor).encode()).hexdigest()[:16]}"


def _folder() -> Path:
    stamp = _stamp()
    if _SHIPPED.exists():
        for processor in (target(), *((level, "") for level in levels())):
            folder = _SHIPPED / _name(stamp, processor)
            if folder.exists():
                return folder
    home = os.environ.get("FRESHET_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "freshet"
    )
    return Path(home) / _name(stamp, target())


def ship(home: Path, level: str) -> Path:
    """Compiles all kernels for a processor level into a folder of `home`, to be shipped with an installation."""
    environment = {**os.environ, **compiling_for(level), "FRESHET_CACHE": str(home)}
    subprocess.run([sys.executable, "-c", _ALL], env=_with_package(environment), check=True)
    return home / _name(_stamp(), (level, ""))


def _constants(function: Any, seen: set[int]) -> Iterator[tuple[str, str]]:
    """The plain constants with which a function, and the functions it calls, are compiled."""
    codes: list[CodeType] = [function.__code__]
    for code in codes:
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, Dispatcher):
                if id(value) not in seen:
                    seen.add(id(value))
                    yield from _constants(value.py_func, seen)
            elif isinstance(value, (int, float, str, tuple)):
                yield name, repr(value)
            elif isinstance(value, np.ndarray):
                yield name, repr((value.dtype, value.shape, value.tobytes()))


class _Locator(caching._CacheLocator):  # type: ignore[misc]
    """Locates the cache of a kernel for numba. The folder is created only when a kernel is stored."""

    folder: Path

    def __init__(self, function: Any, file: str) -> None:
        self._function, self._py_file = function, file

    def get_cache_path(self) -> str:
        return str(self.folder)

    def get_source_stamp(self) -> str:
        return hashlib.sha256(repr(sorted(set(_constants(self._function, set())))).encode()).hexdigest()

    def get_disambiguator(self) -> str:
        package = self._function.__module__.rpartition(".")[0]
        return f"{package}-{self._function.__code__.co_firstlineno}"

    @classmethod
    def from_function(cls, function: Any, file: str) -> _Locator:
        return cls(function, file)


class Kernels:
    """The kernels of this process, cached in a folder. `help`: the code that a second process runs to compile half of
    them."""

    def __init__(self, folder: Path, help: str | None = None) -> None:
        self.folder, self._help = folder, help
        self.all: list[Kernel] = []
        self._unsure: list[Kernel] = []  # not known to be compiled
        self._lock = threading.Lock()
        locator = type("Locator", (_Locator,), {"folder": folder})
        self._impl = type("Impl", (CachedKernels,), {"_locator_classes": [locator]})

    def add(self, dispatcher: Any, signature: str) -> None:
        made = Kernel(dispatcher, signature, self._impl)
        self.all.append(made)
        self._unsure.append(made)

    def compile(self, show: Callable[[str], None] | None = None, helping: bool = False) -> float:
        """Compiles and caches every missing kernel; cached ones are not attached. Returns the seconds it took. If there
        is something to compile, progress is passed to `show`, or else printed on standard error. `helping`: another
        process reports progress, and this one begins at the other end."""
        start = time.perf_counter()
        with self._lock:
            self._unsure = [kernel for kernel in self._unsure if not kernel.is_there()]
            if self._unsure:
                self._compile(show, helping)
        return time.perf_counter() - start

    def attach(self) -> None:
        """Attaches all cached kernels, for processes that are forked from this one."""
        for kernel in self.all:
            if kernel.is_there():
                kernel.compile()

    def attached(self) -> int:
        """The number of kernels that this process has attached."""
        return sum(bool(kernel.dispatcher.overloads) for kernel in self.all)

    def _compile(self, show: Callable[[str], None] | None, helping: bool) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            claims = open(self.folder / "claims", "a+b")  # noqa: SIM115  (closed below)
        except OSError as e:
            self._unsure = []  # each is compiled when it is called
            _unkept(self.folder, e)
            return
        said = _CompilingLine(len(self._unsure), show, helping)
        helper = None if helping or self._help is None or len(self._unsure) < _HELPED else _helper(self._help)
        try:
            with claims:
                waiting = time.monotonic()
                while self._unsure:
                    before = len(self._unsure)
                    impatient = time.monotonic() - waiting > _PATIENCE
                    for kernel in list(reversed(self._unsure) if helping else self._unsure):
                        with _claimed(claims.fileno(), kernel.name) as claimed:
                            if (claimed or impatient) and not kernel.is_there():
                                kernel.compile()
                        if kernel.is_there():
                            self._unsure.remove(kernel)
                            said.left(len(self._unsure))
                    if len(self._unsure) < before:
                        waiting = time.monotonic()
                    else:
                        time.sleep(0.1)
        finally:
            said.end()
            if helper is not None:
                helper.kill()
                helper.wait()


class Kernel:
    """One kernel: its compiler and its signature. It is cached by its argument types alone, as numba looks it up when
    it is called."""

    def __init__(self, dispatcher: Any, signature: str, impl: type) -> None:
        self.dispatcher, self.signature = dispatcher, signature
        self.kept = type("Kept", (_CachedCode,), {"_impl_class": impl})(dispatcher.py_func)
        self.name: str = self.kept._impl.filename_base
        dispatcher._cache = self.kept

    @property
    def arguments(self) -> tuple[Any, ...]:
        return tuple(sigutils.normalize_signature(self.signature)[0])

    def is_there(self) -> bool:
        """Whether this process has attached it, or will find it in the cache."""
        wanted = self.arguments
        return wanted in self.dispatcher.overloads or self.kept.holds(wanted)

    def compile(self) -> None:
        self.dispatcher.compile(self.arguments)


class _CachedCode(caching.FunctionCache):  # type: ignore[misc]
    """The cached code of one kernel. A file that cannot be read is treated as missing; if a file cannot be written, the
    next process compiles again."""

    def holds(self, wanted: tuple[Any, ...]) -> bool:
        try:
            found = self._cache_file._load_index()
            return any(key[0] == wanted and os.path.exists(self._cache_file._data_path(found[key])) for key in found)
        except Exception:  # any error from a truncated file
            return False

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """numba's key without the processor, which is part of the folder's name: shipped kernels are compiled for a
        level, not for the processor that loads them."""
        signature, _, code = super()._index_key(sig, codegen)
        return signature, code

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            # numba would first initialize its compiler, which takes longer than loading all kernels.
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        except Exception:
            with suppress(OSError):
                self._cache_file.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as e:
            _unkept(Path(self._cache_path), e)


class _CompilingLine:
    """Reports compilation in one line, which shows progress on a terminal."""

    def __init__(self, many: int, show: Callable[[str], None] | None, silent: bool) -> None:
        self._many, self._show = many, show
        self._on_terminal = show is None and not silent and sys.stderr is not None and sys.stderr.isatty()
        if show is None and not silent and not self._on_terminal:
            _print(f"{self._line(0)}; it takes a minute or two\n")
        self.left(many)

    def _line(self, done: int) -> str:
        return f"freshet: compiling kernels, once per installation: {done} of {self._many}"

    def left(self, many: int) -> None:
        if self._show is not None:
            self._show(self._line(self._many - many))
        elif self._on_terminal:
            _print(f"\r{self._line(self._many - many)}")

    def end(self) -> None:
        if self._on_terminal:
            _print("\r\x1b[K")


_named: set[Path] = set()  # folders for which a warning was printed


def _unkept(folder: Path, error: OSError) -> None:
    if folder not in _named:
        _named.add(folder)
        _print(
            f"freshet: kernels cannot be cached in {folder} ({error.strerror}), so each process compiles those it "
            "calls, which takes seconds for each; set FRESHET_CACHE to a folder that can be written\n"
        )


def _print(text: str) -> None:
    if sys.stderr is not None:
        print(text, file=sys.stderr, end="", flush=True)


@contextmanager
def _claimed(file: int, name: str) -> Iterator[bool]:
    """Whether this process may compile a kernel now: its claim is a lock on one byte of the file."""
    place = zlib.crc32(name.encode())
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except BlockingIOError:
        yield False
        return
    except OSError:  # the file system has no locks
        yield True
        return
    try:
        yield True
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def _helper(code: str) -> subprocess.Popen[bytes] | None:
    if not sys.executable or (os.cpu_count() or 1) < 2:
        return None
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code], env=_with_package(os.environ), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None  # then this process compiles all


def _with_package(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which a child process finds this package."""
    path = os.pathsep.join(filter(None, (str(_PACKAGE.parent), environment.get("PYTHONPATH"))))
    return {**environment, "PYTHONPATH": path}


KERNELS = Kernels(_folder(), _HELP)


def compile_kernels(show: Callable[[str], None] | None = None) -> float:
    return KERNELS.compile(show)


def code() -> str:
    """Identifies this version of Freshet and of its kernels: arrays written by others may have another meaning."""
    return f"{__version__} {KERNELS.folder.name}"


def cache_folder() -> Path:
    """The folder of compiled kernels; FRESHET_CACHE or XDG_CACHE_HOME set another one."""
    return KERNELS.folder
