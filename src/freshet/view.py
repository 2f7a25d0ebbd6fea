"""A materialized view as its user holds it, and what a transaction tells of it."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from freshet.arrow import to_arrow
from freshet.column import Column
from freshet.engine.lanes import packed_to_arrow
from freshet.engine.maintained import Maintained
from freshet.engine.rows import Rows
from freshet.errors import StateError
from freshet.plans import Plan
from freshet.plans import explain as explained
from freshet.plans.explain import Standing, as_dict

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

    def __init__(self, db: Database, name: str, plan: Plan, maintained: Maintained) -> None:
        self._db, self.name, self.plan, self.maintained = db, name, plan, maintained
        self.subscriptions: list[Subscription] = []
        self.closed = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(f.name, f.type.to_arrow(), f.nullable) for f in self.plan.root.fields])

    def batches(self, rows: int = BATCH) -> Iterator[pa.RecordBatch]:
        """The answer, at most `rows` rows at a time, in bounded memory. A transaction in between ends the reading with
        an error: an answer is of one version."""
        if rows < 1:
            raise ValueError(f"a batch of {rows} rows; ask for 1 or more")
        with self._db.lock:
            self._check_open()
            version, found = self._db.version, self.maintained.batches(rows)
        while True:
            with self._db.lock:
                self._check_open()
                if self._db.version != version:
                    raise StateError(
                        f"the view moved from version {version} to {self._db.version} while it was read; "
                        "read it again, or take it at once with to_arrow()"
                    )
                columns = next(found, None)
                if columns is None:
                    return
                batch = self._batch(columns)
            if batch.num_rows:
                yield batch

    def _batch(self, columns: list[Column]) -> pa.RecordBatch:
        arrays = [to_arrow(c).cast(f.type) for c, f in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

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

    def explain(self, form: str = "text") -> str:
        """Class, join tree, guarantees and sizes; `form` is "text" or "json"."""
        with self._db.lock:
            self._check_open()
            kept = self.maintained
            statistics = _standing(kept)
            counted, flipped = kept.work()
            state = {"bytes": kept.scope.nbytes(), "tuples": sum(n for n, _ in statistics.nodes)}
            work = {"counters changed": counted, "keys flipped": flipped, "changes": self._db.changes}
        if form == "json":
            whole = {"view": self.name, **as_dict(self.plan.root, statistics), "state": state, "work": work}
            return json.dumps(whole, indent=2, ensure_ascii=False)
        if form != "text":
            raise ValueError(f'no form {form!r}; explain gives "text" or "json"')
        per = f", {counted / self._db.changes:.2f} a change" if self._db.changes else ""
        return (
            f"view       {self.name}\n{explained(self.plan.root, statistics)}\n"
            f"state      {state['bytes']:,} bytes beside the tables\nwork       {counted:,} counters changed{per}"
        )

    def _check_open(self) -> None:
        if self.closed:
            raise StateError(f"view {self.name} was dropped; create it again")

    def __repr__(self) -> str:
        return f"View({self.name!r})"


def _standing(kept: Maintained) -> Standing:
    return Standing(kept.statistics(), [_standing(below) for below in kept.reads or kept.below])
