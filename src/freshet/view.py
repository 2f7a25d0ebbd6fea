"""A materialized view as its user holds it. Any thread may use it: whatever touches state holds the database's
`state_lock`, and what is handed out is a copy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from freshet.adapt import Following
from freshet.arrow import to_batches
from freshet.engine.maintained import Maintained
from freshet.errors import StateError
from freshet.following import Changes
from freshet.interrupts import Deferred, deliver
from freshet.metrics import Paid
from freshet.plans import Plan
from freshet.plans import explain as explained
from freshet.plans.explain import Standing, as_dict
from freshet.publish import Subscription
from freshet.sql.bound import Field
from freshet.transaction import Transaction

if TYPE_CHECKING:
    from freshet.db import Database

BATCH = 65_536


class View:
    """Made by `Database.create_view`; found again by `Database.view`."""

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
        return as_schema(self.plan.root.fields)

    def batches(self, rows: int = BATCH, *, ordered: bool = True) -> Iterator[pa.RecordBatch]:
        """The answer, at most `rows` rows at a time, in bounded memory. A transaction in between ends the reading with
        an error: an answer is of one version. A view with ORDER BY and no LIMIT is sorted first, in memory that grows
        with its answer; `ordered=False` reads it as it comes."""
        if rows < 1:
            raise ValueError(f"a batch of {rows} rows; ask for 1 or more")
        version, kept, found = -1, self.maintained, None
        while True:
            deliver()  # between two batches: a kernel's result and an exception of a handler's do not go together
            with self._db.state_lock, Deferred():
                self._check_open()
                if found is None:
                    version, kept = self._db.version, self.maintained
                    found = kept.batches(rows) if ordered else kept.unordered(rows)
                if self._db.version != version:
                    raise StateError(
                        f"the view moved from version {version} to {self._db.version} while it was read; "
                        "read it again, or take it at once with to_arrow()"
                    )
                if self.maintained is not kept:
                    raise StateError("the view was built anew while it was read; read it again")
                columns = next(found, None)
                if columns is None:
                    return
                made = [b for b in to_batches(columns, self.schema) if b.num_rows]
            yield from made

    def to_arrow(self) -> pa.Table:
        with self._db.state_lock:
            return pa.Table.from_batches(list(self.batches()), self.schema)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        import polars

        return polars.from_arrow(self.to_arrow())

    def count(self) -> int:
        """Rows in the answer, added up without enumerating them wherever the plan allows."""
        try:
            with self._db.state_lock, Deferred():
                self._check_open()
                return self.maintained.count()
        finally:
            deliver()

    def subscribe(self, callback: Callable[[Transaction], object]) -> Subscription:
        """Calls `callback(tx)` after each transaction, until the returned subscription is closed. It is called in the
        thread of the writer, before `apply` returns; what it reads is of version `tx.version`. Other threads can read
        meanwhile, and wait with changes: do not wait in a callback for a thread that writes. A callback that fails is
        logged and listed in `tx.errors`; the transaction stands, and the others are called."""
        with self._db.state_lock:
            self._check_open()
            made = Subscription(self, callback)
            self.subscriptions.append(made)
            return made

    def unsubscribe(self, subscription: Subscription) -> None:
        """What `Subscription.close` does."""
        with self._db.state_lock:
            self.subscriptions = [s for s in self.subscriptions if s is not subscription]

    def changes(self, since: int | None = None, *, follow: bool = True, buffer: int = 10_000) -> Changes:
        """Each version after `since` (default: this one) with the view's delta, an iterator for `for` and `async for`
        that waits for the next transaction; `follow=False` ends it at the version of today. A reader that is `buffer`
        transactions behind goes on from the log."""
        self._check_open()
        return Changes(self, since, follow, buffer)

    def at(self, version: int) -> pa.Table:
        """The answer as it was at a version that the log still reaches back to."""
        with self._db.state_lock:
            self._check_open()
            if version == self._db.version:
                return self.to_arrow()
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
        """Class, join tree, guarantees and sizes; `form` is "text" or "json"."""
        if form not in ("text", "json"):
            raise ValueError(f'no form {form!r}; explain gives "text" or "json"')
        with self._db.state_lock:
            self._check_open()
            kept, chosen = self.maintained, self.following.chosen
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
        return f"View({self.name!r})"


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
