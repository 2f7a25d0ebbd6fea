"""Loads cached kernels as machine code alone.

Law: the cached form of a kernel is its machine code and, for compiling other kernels into which it is linked, its
intermediate code. numba parses both when it loads a kernel, which takes several times the memory of the machine code;
here the intermediate code is parsed when such a kernel is compiled. What the machine code defines is read from its own
table of symbols; code in another format than ELF is loaded as numba does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from numba.core import caching
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock

_ELF = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_SYMBOLS = 2  # the type of a section with symbols
_HEAD, _SECTION, _SYMBOL = struct.Struct("<40xQ10xHHH"), struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")


def defined_symbols(code: bytes) -> set[str] | None:
    """The names that an object file defines for others; None if it has another format."""
    if not code.startswith(_ELF):
        return None
    first, size, many, _ = _HEAD.unpack_from(code)
    sections = [_SECTION.unpack_from(code, first + i * size) for i in range(many)]
    names = set()
    for _, kind, _, _, at, length, link, _, _, _ in sections:
        if kind != _SYMBOLS:
            continue
        texts = sections[link][4]
        for name, binding, _, section, _, _ in _SYMBOL.iter_unpack(code[at : at + length]):
            if name and section and binding >> 4:  # neither local nor defined elsewhere
                names.add(code[texts + name : code.index(b"\0", texts + name)].decode())
    return names


class LoadedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a loaded kernel."""

    _intermediate: bytes | None = None
    _shared_module: Any

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        names = defined_symbols(data[0]) if kind == "object" else None
        if names is None:
            return super()._unserialize(codegen, state)
        library = codegen.create_library(name)
        library.enable_object_caching()
        library._set_compiled_object(data[0])
        library._intermediate = data[1]
        library._finalize_final_module()
        codegen._engine._defined_symbols |= names
        return library

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None and self._intermediate is not None:
            self._shared_module = llvm.parse_bitcode(self._intermediate)
        return super()._get_module_for_linking()


@contextmanager
def _loading(codegen: Any) -> Iterator[None]:
    """Libraries are loaded in this way; those of other users of numba in this process are not."""
    before = codegen._library_class
    codegen._library_class = LoadedLibrary
    try:
        yield
    finally:
        codegen._library_class = before


class CachedKernels(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """numba's form of cached functions, loaded in this way."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        with global_compiler_lock, _loading(target_context.codegen()):
            return super().rebuild(target_context, payload)
