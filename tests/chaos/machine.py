"""A machine with injected faults: it dies at some system call, or its disk is full for a while.

Dying is exact: the call at which it happens may do a part of its work, and no later call has an effect. So the folder
afterwards is that of a process killed at that moment.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from freshet.budget import Memory
from freshet.interrupts import lifted

_CALLS = ("pwrite", "fsync", "ftruncate", "replace", "link", "unlink")


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def _calls(wrapped: Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]) -> Iterator[None]:
    real = {name: getattr(os, name) for name in _CALLS}
    for name in _CALLS:
        setattr(os, name, lambda *args, name=name, **_: wrapped(name, real[name], args))
    try:
        yield
    finally:
        for name in _CALLS:
            setattr(os, name, real[name])


@contextmanager
def dies(after: int, part: int) -> Iterator[None]:
    """Dies after a number of calls; if the last one is a write, a given percentage of it is done."""
    count = 0

    def wrapped(name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        nonlocal count
        count += 1
        if count == after + 1 and name == "pwrite":
            data = bytes(args[1])
            real(args[0], data[: len(data) * part // 100], args[2])
        elif count == after + 1 and part >= 50:
            real(*args)
        if count > after:
            raise Killed
        return real(*args)

    with _calls(wrapped):
        yield


@contextmanager
def limited(memory: Memory, room: int) -> Iterator[None]:
    """Limits the memory that the database may take in addition."""
    memory.limit = memory.held + room
    try:
        yield
    finally:
        memory.limit = None


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Limits the bytes that can still be written."""

    def wrapped(name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        nonlocal room
        if name == "pwrite":
            data = bytes(args[1])
            if not room:
                raise OSError(errno.ENOSPC, "No space left on device")
            done = real(args[0], data[:room], args[2])
            room -= done
            return done
        return real(*args)

    with _calls(wrapped):
        yield


@contextmanager
def interrupted(at: int) -> Iterator[None]:
    """Ctrl-C at that bytecode."""
    seen = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        if "gc_callback" in frame.f_code.co_name:  # of the test library: exceptions raised there are lost
            return None
        if frame.f_code is lifted.__code__:  # a real signal would arrive in this frame, and not in that of `trace`
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == at:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGINT, before)
