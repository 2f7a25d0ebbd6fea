"""A materialized view as its user holds it, and what a transaction tells of it."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from freshet.adapt import Following
from freshet.arrow import to_arrow
from freshet.column import Column
from freshet.engine.lanes import packed_to_arrow
from freshet.engine.maintained import Maintained
from freshet.engine.rows import Rows
from freshet.errors import StateError
from freshet.metrics import Paid
from freshet.plans import Plan
from freshet.plans import explain as explained
from freshet.plans.explain import Standing, as_dict
from freshet.sql.bound import Field

if TYPE_CHECKING:
    from freshet.db import Database

BATCH = 65_536


class Delta:
    """One view's change, turned into Arrow when somebody looks."""

    __slots__ = ("__weakref__", "_rows", "_table", "_view")

    def __init__(self, view: Maintained, rows: Rows) -> None:
        self._view = view
        self._rows: Rows | None = rows  # until they are a table
        self._table: pa.Table | None = None if len(rows) else view.no_delta

    def table(self) -> pa.Table:
        if self._table is None:
            assert self._rows is not None
            columns = packed_to_arrow(self._rows.lanes, self._view.types, self._view.pool)
            arrays = [*columns, pa.array(self._rows.weights)]
            self._table = pa.Table.from_arrays(arrays, schema=self._view.delta_schema)
            self._rows = None
        return self._table


class Deltas(Mapping[str, pa.Table]):
    """The delta of each view by name; names ignore case."""

    __slots__ = ("_found",)

    def __init__(self, found: dict[str, Delta]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> pa.Table:
        return self._found[name.lower()].table()

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class Transaction:
    """What a transaction did: the version it led to and, unless they were not asked for, every view's delta."""

    __slots__ = ("deltas", "version")

    def __init__(self, version: int, deltas: Deltas) -> None:
        self.version, self.deltas = version, deltas

    def __repr__(self) -> str:
        return f"Transaction(version={self.version}, views={list(self.deltas)})"


class Subscription:
    """A callback on its view; `close` ends it. Also a context manager."""

    def __init__(self, view: View, callback: Callable[[Transaction], object]) -> None:
        self._view, self._callback = weakref.ref(view), callback

    def __call__(self, tx: Transaction) -> None:
        self._callback(tx)

    def close(self) -> None:
        view = self._view()
        if view is not None and self in view.subscriptions:
            view.subscriptions.remove(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class View:
    """Made by `Database.create_view`; found again by `Database.view`."""

    def __init__(
        self, db: Database, name: str, plan: Plan, maintained: Maintained, paid: Paid, following: Following
    ) -> None:
        self._db, self.name, self.plan, self.maintained = db, name, plan, maintained
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
        with self._db.lock:
            self._check_open()
            version, kept = self._db.version, self.maintained
            found = kept.batches(rows) if ordered else kept.unordered(rows)
        while True:
            with self._db.lock:
                self._check_open()
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
                batch = as_batch(columns, self.schema)
            if batch.num_rows:
                yield batch

    def to_arrow(self) -> pa.Table:
        with self._db.lock:
            return pa.Table.from_batches(list(self.batches()), self.schema)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        import polars

        return polars.from_arrow(self.to_arrow())

    def count(self) -> int:
        """Rows in the answer, added up without enumerating them wherever the plan allows."""
        with self._db.lock:
            self._check_open()
            return self.maintained.count()

    def subscribe(self, callback: Callable[[Transaction], object]) -> Subscription:
        """Calls `callback(tx)` after each transaction, until the returned subscription is closed."""
        with self._db.lock:
            self._check_open()
            self.subscriptions.append(Subscription(self, callback))
            return self.subscriptions[-1]

    def metrics(self) -> dict[str, Any]:
        """What keeping the view has cost: counters changed for each change of its tables, since it was made and over
        the last minute; and how often it has moved to another join tree."""
        with self._db.lock:
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
        with self._db.lock:
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

    def _check_open(self) -> None:
        if self.closed:
            raise StateError(f"view {self.name} was dropped; create it again")

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


def as_batch(columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [to_arrow(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
