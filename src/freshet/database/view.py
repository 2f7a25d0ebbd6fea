"""A materialized view as its user holds it. Any thread may use it: whatever touches state holds the database's
`state_lock`, or reads a copy (aside.py), and what is handed out is a copy too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pyarrow as pa

from freshet.budget import hold, look, unbudgeted
from freshet.database.adapt import Following
from freshet.database.aside import Aside, Reading, read
from freshet.database.following import Changes
from freshet.database.metrics import Paid
from freshet.database.publish import Subscription
from freshet.database.rows import Rows
from freshet.database.transaction import Transaction
from freshet.engine.maintained import Maintained
from freshet.errors import StateError
from freshet.interrupts import Deferred, deliver
from freshet.logical.query import Field
from freshet.plans import Plan
from freshet.plans import explain as explained
from freshet.plans.explain import Standing, as_dict
from freshet.plans.model import schemas
from freshet.scalar.arrow import to_batches
from freshet.scalar.column import Column

if TYPE_CHECKING:
    from freshet.database.db import Database

BATCH = 65_536

T = TypeVar("T")


class View(Rows):
    """A view that is kept fresh: made by `Database.create_view`, found again by `Database.view`.

    Attributes
    ----------
    name
        As it was created.
    plan
        How it is kept; `explain` shows it.
    """

    def __init__(
        self, db: Database, name: str, plan: Plan, maintained: Maintained, paid: Paid, following: Following, made: int
    ) -> None:
        self._db, self.name, self.plan, self.maintained = db, name, plan, maintained
        self.made = made  # the version at which it was
        self.paid, self.following = paid, following
        self.subscriptions: list[Subscription] = []
        self.closed = False

    @property
    def schema(self) -> pa.Schema:
        """The answer's columns, as Arrow has them."""
        return as_schema(self.plan.root.fields)

    def batches(self, rows: int = BATCH, *, ordered: bool = True, copy: bool = False) -> Iterator[pa.RecordBatch]:
        """Read the answer in batches, in memory that does not grow with it.

        A transaction in between ends the reading with an error: an answer is of one version. Read from a copy to go
        on for as long as it takes.

        Parameters
        ----------
        rows
            The most rows of a batch.
        ordered
            Whether a view with ORDER BY and no LIMIT is sorted, in memory that grows with its answer; False reads
            the rows as they come.
        copy
            Whether to copy the view's state first, its tables and their text included, and read the copy. Then
            transactions in between do not matter, and nobody waits for the reader.

        Yields
        ------
        pyarrow.RecordBatch
            At least one row each.

        Raises
        ------
        StateError
            The view has moved to another version, or was dropped.
        BudgetError
            The memory limit leaves no room for a copy.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> view = db.create_view("v", "SELECT a FROM t")
        >>> tx = db.apply({"t": [{"a": a} for a in range(5)]})
        >>> [batch.num_rows for batch in view.batches(2)]
        [2, 2, 1]
        """
        if rows < 1:
            raise ValueError(f"a batch of {rows} rows; ask for 1 or more")
        if copy:
            yield from self._copied(rows, ordered)
            return
        found, check = None, self._check_open
        while True:
            deliver()  # between two batches: a kernel's result and an exception of a handler's do not go together
            with self._db.state_lock, Deferred():
                check()
                if found is None:
                    found, check = _begun(self.maintained, rows, ordered), self._standing()
                made = self._next(found)
            if made is None:
                return
            yield from made

    def _copied(self, rows: int, ordered: bool) -> Iterator[pa.RecordBatch]:
        with self._db.state_lock, Deferred():
            self._check_open()
            plan, prefix = self.plan.root, self.maintained.scope.prefix
            aside = Aside(self._db, self._tables(), [prefix])
        try:
            with Deferred():
                found = _begun(aside.view(prefix, plan), rows, ordered)
            while True:
                deliver()
                with Deferred():
                    made = self._next(found)
                if made is None:
                    return
                yield from made
        finally:
            aside.release()

    def _next(self, found: Iterator[list[Column]]) -> list[pa.RecordBatch] | None:
        columns = next(found, None)
        return None if columns is None else [b for b in to_batches(columns, self.schema) if b.num_rows]

    def _standing(self) -> Callable[[], None]:
        """Raises StateError when the view is no longer as it stands now."""
        version, kept, moves = self._db.version, self.maintained, self._db.session.moves

        def check() -> None:
            self._check_open()
            if self._db.version != version:
                raise StateError(
                    f"the view moved from version {version} to {self._db.version} while it was read; "
                    "read it again, take it at once with to_arrow(), or read a copy with batches(copy=True)"
                )
            if self._db.session.moves != moves:
                raise StateError(
                    "a transaction has changed the view while it was read, or was taken back for its readers; "
                    "read it again, take it at once with to_arrow(), or read a copy with batches(copy=True)"
                )
            if self.maintained is not kept:
                raise StateError("the view was rebuilt while it was read; read it again")

        return check

    @contextmanager
    def _standing_still(self) -> Iterator[int]:
        try:
            with self._db.state_lock:
                self._check_open()
                yield self._db.version
        except SystemError as e:  # how numba gives an exception that a signal handler has raised
            raise (e.__cause__ or e) from None

    def _tables(self) -> list[str]:
        return sorted({schema.name.lower() for schema in schemas(self.plan.root)})

    def _read(self, use: Callable[[Maintained, Callable[[], None]], T], version: int | None = None) -> T | None:
        """What `use` finds in the view's state, or in a copy of it (aside.py); it is given what it checks meanwhile.
        None if the view is not at that version."""

        def begin() -> Reading[T | None]:
            self._check_open()
            kept, plan, check = self.maintained, self.plan.root, self._standing()
            prefix = kept.scope.prefix
            if version not in (None, self._db.version):
                return Reading((), (), lambda: None, lambda _: None)
            return Reading(
                self._tables(),
                [prefix],
                lambda: use(kept, check),
                lambda aside: use(aside.view(prefix, plan), _nothing),
            )

        return read(self._db, begin)

    def to_arrow(self) -> pa.Table:
        """Return the whole answer as a ``pyarrow.Table``, duplicates as repeated rows."""
        found = self._read(self._whole)
        assert found is not None
        return found

    def _whole(self, kept: Maintained, check: Callable[[], None]) -> pa.Table:
        with self._db.memory.lend():
            batches: list[pa.RecordBatch] = []
            found = kept.batches(BATCH)
            while True:
                with unbudgeted():
                    deliver()
                with Deferred():
                    check()
                    look()
                    made = self._next(found)
                if made is None:
                    return pa.Table.from_batches(batches, self.schema)
                for batch in made:
                    hold(batch.nbytes)
                    batches.append(batch)

    def to_pandas(self) -> Any:
        """Return the whole answer as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the whole answer as a polars DataFrame."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def count(self) -> int:
        """Return the number of rows in the answer, without enumerating them wherever the plan allows."""

        def counted(kept: Maintained, _: object) -> int:
            with Deferred():
                return kept.count()

        try:
            found = self._read(counted)
            assert found is not None
            return found
        finally:
            deliver()

    def subscribe(self, callback: Callable[[Transaction], object]) -> Subscription:
        """Call a function after each transaction.

        It is called in the thread of the writer, before `Database.apply` returns; what it reads is of version
        `tx.version`, or of a later one where several threads write and share an fsync. Other threads can read
        meanwhile, and wait with changes: do not wait in a callback for a thread that writes. A callback that fails
        is logged and listed in `tx.errors`; the transaction stands, and the others are called.

        Parameters
        ----------
        callback
            Called with the `Transaction`.

        Returns
        -------
        Subscription
            Closed, it ends the calls.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> seen = []
        >>> with db.create_view("v", "SELECT a FROM t").subscribe(lambda tx: seen.append(tx.version)):
        ...     tx = db.apply({"t": [{"a": 1}]})
        >>> seen
        [1]
        """
        with self._db.state_lock:
            self._check_open()
            made = Subscription(self, callback, self._db.version)
            self.subscriptions.append(made)
            return made

    def unsubscribe(self, subscription: Subscription) -> None:
        """What `Subscription.close` does."""
        with self._db.state_lock:
            self.subscriptions = [s for s in self.subscriptions if s is not subscription]

    def changes(self, since: int | None = None, *, follow: bool = True, buffer: int = 10_000) -> Changes:
        """Iterate over versions and the view's delta at each, past ones first, with ``for`` or ``async for``.

        Parameters
        ----------
        since
            The version after which to begin; by default the current one. A consumer that keeps the last version it
            has dealt with resumes there without gap or duplicate.
        follow
            Whether to wait for transactions to come; False ends at the current version.
        buffer
            A reader that is so many transactions behind goes on from the log; in memory it hears which versions it has
            missed.

        Returns
        -------
        Changes
            An iterator of ``(version, pyarrow.Table)``.

        Raises
        ------
        StateError
            The log no longer reaches back to that version, or versions were missed and there is no log.
        ValueError
            `buffer` is not a number of transactions, 1 or more.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> changes = db.create_view("v", "SELECT a FROM t").changes()
        >>> tx = db.apply({"t": [{"a": 7}]})
        >>> version, delta = next(changes)
        >>> version, delta.to_pylist()
        (1, [{'a': 7, '_weight': 1}])
        >>> changes.close()
        """
        if type(buffer) is not int or buffer < 1:
            raise ValueError(f"buffer is {buffer!r}; give the number of transactions to keep, 1 or more")
        self._check_open()
        return Changes(self, since, follow, buffer)

    def at(self, version: int) -> pa.Table:
        """Return the answer as it was at an earlier version.

        Parameters
        ----------
        version
            One that the log of the folder still reaches back to; see ``retain`` of `freshet.connect`.

        Raises
        ------
        StateError
            That version is gone, or the database is in memory.
        """
        found = self._read(self._whole, version)
        if found is not None:
            return found
        with self._db.state_lock:
            self._check_open()
            if not self.made <= version < self._db.version:
                raise StateError(f"view {self.name} has versions {self.made} to {self._db.version}, not {version}")
        history = self._db.history(self.name, version)
        try:
            return history.answer()
        finally:
            history.close()

    def metrics(self) -> dict[str, Any]:
        """What keeping the view has cost: counters changed for each change of its tables, since it was made and over
        the last minute; and how often it has moved to another join tree."""
        with self._db.state_lock:
            self._check_open()
            recent = self.paid.last_minute(self._db.clock.now(), self.maintained)
            return {
                **self.paid.total(self.maintained).as_dict(),
                "last_minute": recent.as_dict(),
                "tree_switches": self.following.chosen.moves,
                "tree_since": self.following.chosen.since,
            }

    def explain(self, form: str = "text") -> str:
        """Describe how the view is kept: class, join tree, guarantees, sizes and work done.

        Parameters
        ----------
        form
            ``"text"`` or ``"json"``.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> print(db.create_view("v", "SELECT a FROM t").explain().splitlines()[0])
        view       v
        """
        if form not in ("text", "json"):
            raise ValueError(f'no form {form!r}; explain gives "text" or "json"')
        with self._db.state_lock:
            self._check_open()
            kept, chosen = self.maintained.unindexed, self.following.chosen
            statistics = _standing(kept)
            whole = {
                "view": self.name,
                **as_dict(self.plan.root, statistics),
                "state": {"bytes": kept.scope.nbytes(), "tuples": sum(n for n, _ in statistics.nodes)},
                "work": _words({**self.metrics(), "keys_flipped": kept.work()[1]}),
                "chosen": {**asdict(chosen), "adapts": self.following.adapt is not None},
            }
            text = f"view       {self.name}\n{explained(self.plan.root, statistics)}"
        if form == "json":
            return json.dumps(whole, indent=2, ensure_ascii=False)
        lines = [text, f"state      {whole['state']['bytes']:,} bytes beside the tables", *_work(whole["work"])]
        moves = f" (moves so far: {chosen.moves})" if chosen.moves else ""
        lines.append(f"chosen     at version {chosen.since}: {chosen.why}{moves}")
        if chosen.failed is not None:
            lines.append(f"           another tree could not be built: {chosen.failed}")
        return "\n".join(lines)

    def close(self) -> None:
        """The view was dropped."""
        self.closed = True
        for subscription in self.subscriptions:
            subscription.closed = True

    def _check_open(self) -> None:
        self._db.check_open()
        if self.closed:
            raise StateError(f"view {self.name} was dropped; create it again")

    def __reduce__(self) -> NoReturn:
        raise StateError("a view cannot be pickled; send its answer, to_arrow()")

    def __repr__(self) -> str:
        if self.closed or self._db.closed:
            return f"View({self.name!r}, closed)"
        columns = ", ".join(f"{field.name} {field.type}" for field in self.plan.root.fields)
        return f"View({self.name!r}, version={self._db.version}, columns=({columns}))"


def _begun(kept: Maintained, rows: int, ordered: bool) -> Iterator[list[Column]]:
    return kept.batches(rows) if ordered else kept.unordered(rows)


def _nothing() -> None:
    """A copy stays as it is."""


def _standing(kept: Maintained) -> Standing:
    return Standing(kept.statistics(), [_standing(below) for below in kept.reads or kept.below])


def _words(figures: dict[str, Any]) -> dict[str, Any]:
    """Metrics as `explain` names them."""
    return {k.replace("_", " "): _words(v) if isinstance(v, dict) else v for k, v in figures.items()}


def _work(work: dict[str, Any]) -> Iterator[str]:
    for title, spent in (("work", work), ("minute", work["last minute"])):
        per = f", {spent['counters per change']:.2f} a change" if spent["changes"] else ""
        yield f"{title:<10} {spent['counters changed']:,} counters changed by {spent['changes']:,} changes{per}"


def as_schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([pa.field(f.name, f.type.to_arrow(), f.nullable) for f in fields])
