"""Compiled kernels: numba functions over flat arrays, generic over the query, compiled once and cached on disk.

Kernels let other threads run, and most hold bare addresses: database/access.py says who may call them. With
NUMBA_BOUNDSCHECK=1 every index into an array is checked, but not what is reached through an address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from freshet.state.kernel_cache import KERNELS

F = TypeVar("F", bound=Callable[..., Any])

#: numba is largely untyped: its decorators get their types here.
intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = extending.intrinsic


def kernel(signature: str) -> Callable[[F], F]:
    """Registers a kernel with its numba signature, for example "i8(i4[::1], i8[:,::1])"."""

    def decorate(function: F) -> F:
        compiled: F = numba.njit(nogil=True, error_model="numpy")(function)
        KERNELS.add(compiled, signature)
        return compiled

    return decorate


def inlined(function: F) -> F:
    """A function called only by kernels; it is compiled into them."""
    compiled: F = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


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
#: kernel that first prefetches what its next rows will need waits once for all of them. That pays from FAR rows of
#: state on; smaller state stays in the caches.
AHEAD = 32
FAR = 1 << 14


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Prefetches the cache line at an address, without waiting; any address is allowed, even an unmapped one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        to_write, keep, data = number(1), number(3), number(1)
        builder.call(ask, [builder.inttoptr(args[0], pointer), to_write, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def call_back(typing_context: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Calls a function of four int64 by its address, such as a ctypes callback, which acquires the GIL."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = ir.IntType(64)
        kind = ir.FunctionType(number, [number] * 4)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int64(types.int64, types.int64, types.int64, types.int64, types.int64), codegen
