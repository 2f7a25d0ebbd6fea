"""Compiled kernels: numba functions over flat arrays, generic over the query, compiled once and cached on disk.

The cache folder's name holds a digest of every kernel's source, because numba notices a change in a kernel's own file
only, not in one it calls from another file.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils, config

F = TypeVar("F", bound=Callable[..., Any])

#: numba has no types to speak of: its decorators get theirs here, once.
intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = extending.intrinsic

_here = Path(__file__).resolve().parent.parent
_registered: list[tuple[Any, str]] = []


def _cache_folder() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(_here.rglob("*.py")):
        text = path.read_bytes()
        if b"@kernel" in text or b"@inlined" in text or b"@intrinsic" in text:
            digest.update(text)
    home = os.environ.get("FRESHET_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "freshet"
    )
    return os.path.join(home, "kernels-" + digest.hexdigest()[:16])


_folder = _cache_folder()


def cache_folder() -> Path:
    """Where compiled kernels are kept; FRESHET_CACHE or XDG_CACHE_HOME put it elsewhere."""
    return Path(_folder)


def kernel(signature: str) -> Callable[[F], F]:
    """Registers a kernel with its numba signature, for example "i8(i4[::1], i8[:,::1])"."""

    def decorate(function: F) -> F:
        before, config.CACHE_DIR = config.CACHE_DIR, _folder
        try:
            compiled: F = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
        finally:
            config.CACHE_DIR = before
        _registered.append((compiled, signature))
        return compiled

    return decorate


def inlined(function: F) -> F:
    """A function called only by kernels; it is compiled into them."""
    compiled: F = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


def compile_kernels(show: Callable[[str], None] | None = None) -> float:
    """Compiles or loads every registered kernel; returns the seconds it took. Says so when it takes a while. With an
    empty cache a second process compiles from the other end: what it has done is found there when its turn comes."""
    start, told = time.perf_counter(), 0.0
    pending = [(k, s) for k, s in _registered if not k.signatures]
    second = _second_process() if pending and not any(Path(_folder).rglob("*.nbi")) else None
    try:
        for done, (compiled, signature) in enumerate(pending):
            compiled.compile(signature)
            spent = time.perf_counter() - start
            if spent > 1 and spent - told > 1:
                told = spent
                (show or _say)(f"freshet: compiling kernels, once per installation: {done + 1} of {len(pending)}")
    finally:
        if second is not None:
            second.kill()
            second.wait()
    return time.perf_counter() - start


def _second_process() -> subprocess.Popen[bytes] | None:
    if not sys.executable or (os.cpu_count() or 1) < 2:
        return None
    path = os.pathsep.join(filter(None, (str(_here.parent), os.environ.get("PYTHONPATH"))))
    code = "import freshet.db; from freshet.state.kernel import compile_backwards; compile_backwards()"
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None  # then this process does it all


def compile_backwards() -> None:
    """Fills the cache from the last kernel on."""
    for compiled, signature in reversed(_registered):
        compiled.compile(signature)


def _say(line: str) -> None:
    end = "\r" if sys.stderr.isatty() else "\n"
    print(line, file=sys.stderr, end=end, flush=True)


def _pointer(to: Any) -> Any:
    @intrinsic
    def cast(typing_context: Any, address: Any) -> Any:
        signature = types.CPointer(to)(address)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return signature, codegen

    return cast


#: Address (an integer) to a pointer a kernel indexes like an array. A tree of joins has many arrays; handing a kernel
#: one table of their addresses keeps a call at about a microsecond, where unboxing each array would cost several.
as_int8 = _pointer(types.int8)
as_int16 = _pointer(types.int16)
as_int32 = _pointer(types.int32)
as_int64 = _pointer(types.int64)

#: How many rows a kernel looks ahead. State is read at random, and beyond the caches each read would wait for memory; a
#: kernel that first asks for what its next rows will need waits once for all of them. That pays from FAR rows of state
#: on; less stays near.
AHEAD = 32
FAR = 1 << 14


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Asks for the cache line at an address, without waiting; any address will do, also one that is not mapped."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        to_write, keep, data = number(1), number(3), number(1)
        builder.call(ask, [builder.inttoptr(args[0], pointer), to_write, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen
