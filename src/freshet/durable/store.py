"""How a database uses its folder: it is opened, appended to, rewritten when it has grown, and closed.

When the log has grown to several times the size of the current rows, it is rewritten from them, a piece with each
transaction (rewriting.py). The new log is complete and on disk before it takes the old one's name; an interruption
leaves the old one.

At level "fsync" a transaction is written while the database's locks are held, and synced after they are released:
records that other threads write meanwhile wait for the current sync, and then one sync covers all of them. If a sync
fails, it is unknown whether applied transactions are on disk: none of them is acknowledged, and the database refuses
all further use (`lost`). When it is opened again, it has the state before them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from freshet.budget import Memory
from freshet.durable import checkpoint, log, migrate
from freshet.durable.folder import FolderLock, check_readable
from freshet.durable.kept_logs import KeptLogs, first_version
from freshet.durable.log import Durability, Log, RecordPosition, sync_folder
from freshet.durable.record import CATALOG, TRANSACTION, json_payload, rows_payload, signed
from freshet.durable.rewriting import Rewriting
from freshet.durable.snapshot import NOTHING, differences, noted
from freshet.engine.core import Core
from freshet.engine.table import RowChange, Table
from freshet.errors import StateError
from freshet.state.arena import Arena

logger = logging.getLogger("freshet")

_LOG, _CHECKPOINT = "log", "checkpoint"
_TIMES = 2.25  # a log is rewritten at this many times the size of the live rows, so that it stays below three times
_LEAST = (
    4 << 20
)  # (it is checked when it has grown by an eighth, and may grow by a quarter meanwhile), and at least this large
_PIECE, _SHARE = 256, 4  # slots written again with each transaction, and with each row that it changes


class Durable(Protocol):
    """The folder of a database: its durable state."""

    core: Core
    version: int
    changes: int

    def described(self) -> dict[str, Any]: ...
    def shared(self) -> dict[str, Any]: ...

    def changed_rows(self) -> dict[str, int]: ...


class Store:
    """`salvage`: the checkpoint is the source of truth, and the log is made from it."""

    def __init__(self, path: Path, durability: str, read_only: bool, retain: int = 0, salvage: bool = False) -> None:
        if durability not in tuple(Durability):
            raise ValueError(f"durability is {durability!r}; give one of {', '.join(Durability)}")
        if retain < 0:
            raise ValueError(f"retain is {retain}; give the number of versions to keep, or 0")
        self.path = path
        self.level = Durability(durability)
        self.read_only = read_only
        self._salvage = salvage
        self.pid, self.retain = os.getpid(), retain
        self._claim: FolderLock | None = None
        self._facts: dict[str, Any] | None = None  # of the checkpoint, if it is used
        self._heal = False  # whether the log lacks data of the checkpoint, and is written again
        self._saved = noted(NOTHING)
        self._turn, self._busy = threading.Condition(), False  # whether a thread syncs the log or replaces it
        self._written = self._synced = -1  # the last transaction in the log, and the last durable one
        self.lost: str | None = None  # why the disk may lack applied transactions
        self._look_at = _LEAST  # size of the log at the next check
        self._rewriting: Rewriting | None = None
        self._scale = 1.0  # actual size of the live rows at the last rewrite, divided by the estimate
        if read_only:
            check_readable(path)
        else:
            self._claim = FolderLock(path)
        try:
            self.log = self._open_log()
            self._base = first_version(self.log)
        except BaseException:
            self.release()
            raise

    def _open_log(self) -> Log:
        file = self.path / _LOG
        if not file.exists():
            if (self.path / _CHECKPOINT).exists() and not self._salvage:
                raise StateError(
                    f"{file} is missing; restore it from a copy, or make it from the existing checkpoint with: "
                    f"freshet recover {self.path}"
                )
            if self.read_only:
                migrate.refuse_to_read(self.path)
                raise StateError(f"{self.path} is not a database; give the folder of one, or leave out read_only")
            if migrate.is_old(self.path):
                migrate.to_log(self.path, file, self.level)
            else:
                return self._new_log(file)
        if not self.read_only:
            migrate.clear(self.path)
            file.with_name(f"{_LOG}.new").unlink(missing_ok=True)  # an unfinished rewrite
        return Log(file, self.level, not self.read_only)

    def _new_log(self, file: Path) -> Log:
        made = log.make(file, self.level)
        assert self._claim is not None
        for folder in self._claim.made if self.level is not Durability.NONE else ():
            sync_folder(folder.parent)
        return made

    def check(self) -> None:
        """Raises StateError if the state may differ from the folder."""
        self.check_process()
        if self.lost is not None:
            raise StateError(
                f"{self.log.path} could not be written ({self.lost}), and its last transactions are not acknowledged; "
                "close the database and connect again"
            )

    def check_process(self) -> None:
        if self.pid != os.getpid():
            raise StateError(
                f"this database belongs to process {self.pid}, of which this one is a copy; connect again here"
            )

    # Opening --------------------------------------------------------------------------------------------------

    def arena(self, memory: Memory) -> Arena:
        """The initial state: that of the checkpoint, if it is usable."""
        file = self.path / _CHECKPOINT
        saved = checkpoint.read(file)
        if not isinstance(saved, str):
            facts, kept = saved
            place = RecordPosition(*facts["place"])
            if self._salvage or place.log == self.log.id.hex:
                self._facts = facts
                self._heal = self._salvage or not self.log.holds(place)
                return Arena(kept=kept, memory=memory)
            saved = "the log has been rewritten since"
        if file.exists():
            logger.warning("freshet: the checkpoint %s is not used: %s; the log is replayed", file, saved)
            if not self.read_only:
                file.unlink(missing_ok=True)
                self._sync()
        self.log.end = self.log.first
        return Arena(memory=memory)

    def catalog(self) -> dict[str, Any]:
        """The definitions in the checkpoint that is used; none if no checkpoint is used. The log is then read from the
        checkpoint's position."""
        if self._facts is None:
            return {"numbers": 0, "tables": {}, "views": {}}
        self.log.end = self.log.size if self._salvage else min(RecordPosition(*self._facts["place"]).end, self.log.size)
        catalog: dict[str, Any] = self._facts["catalog"]
        return catalog

    def restored(self, state: Durable, catalog: Mapping[str, Any]) -> None:
        """Called when the state equals the log, which has complete records up to its end."""
        self._saved = noted(catalog)
        if not self.read_only:
            self._end_log()
            if self._heal:
                logger.warning("freshet: %s was damaged since it was closed; it is written again", self.log.path)
                self._rewrite(state)

    def damaged(self) -> bool:
        """Whether the log is damaged before its last record."""
        return self.log.end < self.log.size and self.log.whole_after(self.log.end) is not None

    def _end_log(self) -> None:
        """Cuts off the remains of an interrupted write after the last complete record; everything before it is on
        disk."""
        at, size = self.log.end, self.log.size
        if at < size:
            logger.warning("freshet: %s ends with an unfinished record: %d bytes are cut", self.log.path, size - at)
            self.log.cut()
        if self.level is Durability.FSYNC:
            self.log.sync()  # the log of a process that was killed is now the truth

    # Changes --------------------------------------------------------------------------------------------------

    def transaction(self, changes: list[tuple[Table, RowChange]], version: int) -> bytes:
        """The record of a transaction; made before its rows change, written after that."""
        if self._rewriting is not None:
            self._rewriting.before(changes)
        if self.log.far:
            self.settle(self._written)
        rows = sum(len(change) for _, change in changes)
        return self.log.record(TRANSACTION, rows, version, rows_payload((t, *signed(t, c)) for t, c in changes))

    def commit(self, record: bytes, version: int) -> None:
        """Writes the record of a transaction, which is durable when it is `settled`."""
        self.log.append(record)
        self._written = version

    def settled(self, version: int) -> bool:
        """Whether a transaction is as durable as the level promises."""
        return self.level is not Durability.FSYNC or version <= self._synced

    def settle(self, version: int) -> None:
        """Waits until it is. Does not need a lock of the database."""
        with self._alone(lambda: self.settled(version)) as needed:
            if needed:
                self._sync_log()

    @contextmanager
    def _alone(self, unless: Callable[[], bool] = bool) -> Iterator[bool]:
        """Exclusive access to sync the log or to replace it. Waits for its turn, or until it is no longer needed: then
        access is not exclusive, and it yields False."""
        with self._turn:
            self._turn.wait_for(lambda: unless() or not self._busy)
            needed = not unless()
            self._busy = self._busy or needed
        try:
            yield needed
        finally:
            if needed:
                with self._turn:
                    self._busy = False
                    self._turn.notify_all()

    def _sync_log(self) -> None:
        """Syncs everything in the log; called with exclusive access."""
        self.check()
        written = self._written  # its record is complete in the log, so the sync covers it
        try:
            self.log.sync()
        except StateError:
            if self._written > self._synced:
                self.lost = self.log.broken
            raise
        self._synced = written

    def save(self, catalog: dict[str, Any], version: int) -> None:
        """Writes the changes of the definitions."""
        changed = differences(self._saved, catalog)
        if changed["tables"] or changed["views"]:
            self.stay()
            self.log.append(self.log.record(CATALOG, 0, version, json_payload(changed)))
            if self.level is Durability.FSYNC:
                with self._alone():
                    self._sync_log()
            self._saved = noted(catalog)

    def tidy(self, state: Durable, changes: list[tuple[Table, RowChange]]) -> None:
        """Continues rewriting the log, or begins if it has grown enough; called when a transaction is done and its
        texts still exist. A failure leaves the log unchanged."""
        try:
            if self._rewriting is not None:
                self._rewriting.after(changes, state.version)
            elif self._has_grown(state):
                self._begin(state)
            if self._rewriting is not None:
                self._advance(state, _PIECE + _SHARE * sum(len(change) for _, change in changes))
        except (StateError, OSError, MemoryError) as e:
            logger.warning("freshet: the log was not rewritten: %s", e)
            self.stay()

    def _has_grown(self, state: Durable) -> bool:
        if self.log.end < self._look_at:
            return False
        self._look_later()
        return self.log.end > _TIMES * (self._catalog_bytes() + self._scale * _live_bytes(state))

    def _look_later(self) -> None:
        self._look_at = max(_LEAST, self.log.end + self.log.end // 8)

    def _begin(self, state: Durable) -> None:
        self._rewriting = Rewriting(self.path / _LOG, self.level, state.described(), state.core.tables.values())

    def _advance(self, state: Durable, slots: int) -> None:
        assert self._rewriting is not None
        if self._rewriting.advance(list(state.core.tables.values()), slots, state.version):
            with self._alone():
                self._replace_log(state)

    def _replace_log(self, state: Durable) -> None:
        """The new log replaces the old one. Both are on disk then: either may be there after a loss of power."""
        assert self._rewriting is not None
        if not self.settled(self._written):
            self._sync_log()
        if self.retain and state.version > self._base:
            self.log.flush()
            with contextlib.suppress(FileExistsError):
                os.link(self.log.path, self.path / f"log.{self._base}-{state.version}")
        fresh = self._rewriting.finish(state.version, state.changes, state.changed_rows())
        self._rewriting = None
        self.log.close()
        self.log = fresh
        self._facts = None
        self._base = state.version
        for _, last, file in KeptLogs(self.path).all():
            if last <= state.version - self.retain:
                file.unlink(missing_ok=True)
        rows, live = self.log.end - self._catalog_bytes(), _live_bytes(state)
        self._scale = max(1.0, rows / live) if live > _LEAST // 8 else 1.0
        self._look_later()

    def stay(self) -> None:
        """Ends the current rewrite, if there is one: slots or definitions change, or it has failed."""
        if self._rewriting is not None:
            self._rewriting.abandon()
            self._rewriting = None
            self._look_later()

    def _rewrite(self, state: Durable) -> None:
        """Rewrites the log in one step."""
        self.stay()
        self._begin(state)
        try:
            self._advance(state, sys.maxsize)
        except BaseException:
            self.stay()
            raise

    def _catalog_bytes(self) -> int:
        return sum(len(text) for kind in self._saved.values() for text in kind.values())

    # Closing --------------------------------------------------------------------------------------------------

    def close(self, state: Durable, whole: bool) -> None:
        """Writes a checkpoint of state that is `whole`, unless the existing one is current. Without one the log is
        replayed, so a full disk is not an error here."""
        try:
            self.stay()
            if self.read_only or self.log.broken:
                return
            self.log.flush()
            place = self.log.place
            if not whole or (self._facts is not None and RecordPosition(*self._facts["place"]) == place):
                return
            if self.level is not Durability.NONE:
                self.log.sync()
            facts = {
                "place": place,
                "version": state.version,
                "catalog": {**state.described(), "shared": state.shared()},
            }
            try:
                checkpoint.write(self.path / _CHECKPOINT, state.core.arena, facts, self.level is not Durability.NONE)
                self._sync()
            except OSError as e:
                logger.warning("freshet: no checkpoint of %s: %s; the log will be replayed", self.path, e.strerror)
        finally:
            self.release()

    def _sync(self) -> None:
        if self.level is not Durability.NONE:
            sync_folder(self.path)

    def release(self) -> None:
        if self._rewriting is not None:
            self._rewriting.log.close()
        if hasattr(self, "log"):
            self.log.close()
        if self._claim is not None:
            self._claim.release()


def _live_bytes(state: Durable) -> int:
    """The estimated size of the live rows in a log."""
    core = state.core
    texts = core.pool.text_bytes + sum(t.text_bytes for t in core.tables.values())
    return sum(t.tuples.live * (t.width + 1) * 8 for t in core.tables.values()) + texts
