"""Signals wait while state is half changed.

Law: Python runs signal handlers in the main thread only, between any two bytecodes, and a handler may raise (Ctrl-C
does). While `Deferred` is entered every Python handler is replaced by one that only takes a note, so nothing raises; at
the end the handlers are put back, and `deliver` calls those whose signal came, in the order they came. What is `lifted`
meanwhile is code of the user's, which may take long: signals come through as soon as it runs, and not a bytecode
before. Blocking signals instead would not do: another thread of the process may take the signal, and the handler still
runs in the main thread.
"""

from __future__ import annotations

# The functions of `signal` without their conversion to enums, at a tenth of the time.
import _signal  # type: ignore[import-not-found]
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_NUMBERS = tuple(sorted(_signal.valid_signals()))
_seen: list[Any] = []  # what was last found to handle each of them
_handled: tuple[tuple[int, Callable[[int, FrameType | None], Any]], ...] = ()  # those of them that Python handles
_swapped: dict[int, Callable[[int, FrameType | None], Any]] = {}
_came: list[tuple[int, FrameType | None]] = []
_depth = 0
_caller: FrameType | None = None  # the frame that runs code of the user's, if one does


class Deferred:
    """A context manager. In other threads than the main one it does nothing."""

    __slots__ = ("_caller",)

    def __enter__(self) -> None:
        global _depth, _caller
        if not _is_main():
            return
        if not _depth:
            try:
                for number, handler in _handlers():
                    _swapped[number] = handler
                    before = _signal.signal(number, _note)
                    if before is not handler:  # a handler that just ran has installed another
                        _swapped[number] = before
            except BaseException:
                _restore()
                raise
        self._caller, _caller = _caller, None
        _depth += 1

    def __exit__(self, *_: object) -> None:
        global _depth, _caller
        if not _is_main():
            return
        _depth -= 1
        _caller = self._caller
        if not _depth:
            _restore()


def lifted(call: Callable[..., object], *args: object) -> None:
    """Calls it with signals coming through."""
    global _caller
    if not _is_main() or not _depth:
        call(*args)
        return
    before, _caller = _caller, sys._getframe()
    try:
        call(*args)
    finally:
        _caller = before


def deliver() -> None:
    """Calls the handlers of signals that came while they were deferred; each is called, also when another raises."""
    if _depth or not _came or not _is_main():
        return
    try:
        while _came:
            number, frame = _came.pop(0)
            handler = _signal.getsignal(number)
            if callable(handler):
                handler(number, frame)
    finally:
        if _came:
            deliver()


def _handlers() -> tuple[tuple[int, Callable[[int, FrameType | None], Any]], ...]:
    """The signals that Python handles. Nearly always they are those of the last time, which takes one comparison."""
    global _seen, _handled
    found = list(map(_signal.getsignal, _NUMBERS))
    if found != _seen:
        _handled = tuple((n, handler) for n, handler in zip(_NUMBERS, found, strict=True) if callable(handler))
        _seen = found
    return _handled


def _note(number: int, frame: FrameType | None) -> None:
    if _caller is not None and frame is not _caller and number in _swapped:
        _swapped[number](number, frame)
    elif all(number != other for other, _ in _came):
        _came.append((number, frame))


def _is_main() -> bool:
    return _get_ident() == _main


def _find_main() -> None:
    """A process that was forked has its own main thread: the one that forked."""
    global _main
    main = threading.main_thread().ident
    assert main is not None
    _main = main


_get_ident = threading.get_ident
_main = 0
_find_main()
os.register_at_fork(after_in_child=_find_main)


def _restore() -> None:
    """Safe to be interrupted by a handler that is back already: a signal is forgotten only when its handler is."""
    try:
        while _swapped:
            number = next(iter(_swapped))
            _signal.signal(number, _swapped[number])
            del _swapped[number]
    finally:
        if _swapped:
            _restore()
