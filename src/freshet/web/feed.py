"""The thread that feeds an engine with the changes of a scenario, at a given rate, until paused, restarted or
closed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from freshet.database.adapt import Adapt, adapting
from freshet.demo.scenario import MODES, Transaction
from freshet.demo.scenarios import SCENARIOS
from freshet.errors import FreshetError, PlanError

logger = logging.getLogger("freshet.web")
BEATS = 20  # transactions a second, at most
LEAD = 2.0  # seconds of processor time during which the stream is not throttled, so that there is something to see
#: A page must not make this machine connect to others; only the user who starts it may add one.
MASTERS = ("local[1]", "local[2]", "local[4]", "local[*]")


@dataclass(frozen=True, slots=True)
class Settings:
    """The page's settings. `window`: share of the rows present at a time; `speed`: changed rows a second; `adapt`: how
    many times cheaper another join tree must be before a view moves to it, in process (0: never); `master`: where Spark
    runs."""

    source: str = "tpch"
    scale: float = 0.01
    mode: str = "sliding"
    window: float = 0.2
    speed: int = 2_000
    engine: str = "in-process"
    master: str = "local[2]"
    shards: int = 2
    repeat: bool = True
    adapt: float = Adapt().ratio

    def changed(self, given: dict[str, Any], sources: tuple[str, ...], masters: tuple[str, ...] = MASTERS) -> Settings:
        """The settings changed as a message says, checked."""
        known = asdict(self)
        for name, value in given.items():
            if name not in known:
                raise PlanError(f"no setting {name}; there are {', '.join(known)}")
            wanted = type(known[name])
            if wanted is float and isinstance(value, int):
                value = float(value)
            if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
                raise PlanError(f"{name} is {value!r}; give a {wanted.__name__}")
            known[name] = value
        made = replace(self, **known)
        for name, least, most in (
            ("scale", 0.0001, 10),
            ("window", 0.001, 1),
            ("speed", 1, 1_000_000),
            ("shards", 1, 64),
            ("adapt", 0, 1_000),
        ):
            if not least <= known[name] <= most:
                raise PlanError(f"{name} is {known[name]}; give {least:g} to {most:,}")
        adapting(made.adapt)  # raises an error that says what is wrong
        for name, choices in (
            ("source", sources), ("mode", MODES), ("engine", ("in-process", "spark")), ("master", masters),
        ):  # fmt: skip
            if known[name] not in choices:
                raise PlanError(f"{name} is {known[name]!r}; there are {', '.join(choices)}")
        return made


class FeedState(StrEnum):
    """What the page shows of a stream."""

    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"


class StreamFeed:
    """`make`: the transactions of one round; `apply`: applies one and returns the number of rows changed; `seen`:
    whether there is something to see yet. Until then, changes are applied as fast as possible."""

    def __init__(
        self, make: Callable[[], Iterator[Transaction]], apply: Callable[[Transaction], int], speed: int, repeat: bool,
        failed: Callable[[str], None], seen: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        self._make = make
        self._apply = apply
        self.speed = speed
        self.repeat = repeat
        self._failed = failed
        self._seen, self.ahead = seen, threading.Event()  # set when there is something to see, or its time is up
        self._going, self._closed = threading.Event(), threading.Event()
        self.finished = False
        self._thread = threading.Thread(target=self._run, name="freshet feed", daemon=True)

    @property
    def size(self) -> int:
        """Changed rows a transaction."""
        return max(1, self.speed // BEATS)

    @property
    def state(self) -> FeedState:
        if self.finished:
            return FeedState.FINISHED
        return FeedState.RUNNING if self._going.is_set() else FeedState.PAUSED

    def start(self, paused: bool = False) -> None:
        if not paused:
            self._going.set()
        self._thread.start()

    def pause(self) -> None:
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def close(self, patience: float = 30.0) -> bool:
        """Whether the current transaction ended within that many seconds."""
        self._closed.set()
        self._going.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(patience)
        return not self._thread.is_alive()

    def _hurries(self) -> bool:
        if not self.ahead.is_set() and (self._seen() or time.thread_time() > LEAD):
            self.ahead.set()
        return not self.ahead.is_set()

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                for changes in self._make():
                    started = time.monotonic()
                    self._going.wait()
                    if self._closed.is_set():
                        return
                    changed = self._apply(changes)
                    if self._hurries():
                        continue
                    rest = changed / self.speed - (time.monotonic() - started)
                    if rest > 0:
                        self._closed.wait(rest)
                if not self.repeat:
                    break
            self.finished = True
        except FreshetError as e:
            self.finished = True
            self._failed(str(e))
        except Exception:
            self.finished = True
            logger.exception("the stream failed")
            self._failed("the stream failed; the server's log says why")
        finally:
            self.ahead.set()


SOURCES = tuple(SCENARIOS)
