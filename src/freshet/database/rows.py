"""A view as a collection of rows: looked up by key, counted, iterated over, displayed, exported as Arrow."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from freshet.database.kept_view import KeptView
from freshet.database.lookup import AbsentValueError, Row, chosen, key_row, lane_form, rows_of
from freshet.database.state import State
from freshet.engine.maintained import Finder, Maintained
from freshet.errors import PlanError, brief

_SHOWN = 10  # rows shown in a notebook


class RowCollection(ABC):
    """The part of `View` that is a collection of rows."""

    _state: State
    _kept: KeptView
    _finders: tuple[Maintained, Sequence[Finder]] | None = None

    @abstractmethod
    def _check_open(self) -> None: ...

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def to_arrow(self) -> pa.Table: ...

    @abstractmethod
    def batches(self, rows: int = ..., *, ordered: bool = True, copy: bool = False) -> Iterator[pa.RecordBatch]: ...

    @abstractmethod
    def count(self) -> int: ...

    def get(self, key: Any, default: Any = None, *, by: str | Sequence[str] | None = None) -> Any:
        """Look one row up by its key, without enumerating the answer.

        The key of a view with GROUP BY is its groups, and the key of a view over a single table is that table's primary
        key, if these columns are in the answer. Any view can be looked up by the columns of an index (``CREATE INDEX ON
        view (column)``).

        Parameters
        ----------
        key
            The value of the key's column, a tuple if it has several, or a dict of columns to values.
        default
            What to return if no row has that key.
        by
            The columns of the key; by default those that identify a row, or else those of the only index.

        Returns
        -------
        dict
            The row, or `default`.

        Raises
        ------
        PlanError
            Rows cannot be looked up by these columns, several rows have the key (`find` returns them all), or the value
            does not have the type of its column.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE sale (id BIGINT PRIMARY KEY, city STRING, price BIGINT)")
        >>> view = db.create_view("totals", "SELECT city, SUM(price) AS total FROM sale GROUP BY city")
        >>> tx = db.execute("INSERT INTO sale VALUES (1, 'Oslo', 20), (2, 'Oslo', 22)")
        >>> view.get("Oslo")
        {'city': 'Oslo', 'total': 42}
        >>> view.get("Bergen") is None
        True
        """
        rows = self.find(key, by=by)
        if len(rows) > 1:
            raise PlanError(f"{len(rows)} rows of view {self.name} have the key {brief(key)}; find() returns them all")
        return rows[0] if rows else default

    def find(self, key: Any, *, by: str | Sequence[str] | None = None) -> list[Row]:
        """Look up all rows that have a key, without enumerating the answer.

        Parameters
        ----------
        key
            As for `get`.
        by
            As for `get`.

        Returns
        -------
        list
            The rows as dicts, duplicates as repeated rows; empty if there is none.

        Raises
        ------
        PlanError
            Rows cannot be looked up by these columns, or the value does not have the type of its column.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE sale (id BIGINT PRIMARY KEY, city STRING)")
        >>> view = db.create_view("sales", "SELECT id, city FROM sale")
        >>> db.execute("CREATE INDEX ON sales (city)")
        >>> tx = db.execute("INSERT INTO sale VALUES (1, 'Oslo'), (2, 'Oslo')")
        >>> sorted(row["id"] for row in view.find("Oslo", by="city"))
        [1, 2]
        """
        with self._held_still():
            kept, fields = self._kept.operator, self._kept.plan.root.fields
            finder, values = chosen(self._ways(), fields, self.name, key, by)
            try:
                lanes = [lane_form(v, fields[c]) for v, c in zip(values, finder.columns, strict=True)]
            except AbsentValueError:
                return []
            row = key_row([fields[c].type for c in finder.columns], lanes, kept.pool)
            return [] if row is None else rows_of(finder, row, fields, kept.pool)

    def _ways(self) -> Sequence[Finder]:
        kept = self._kept.operator
        if self._finders is None or self._finders[0] is not kept:
            self._finders = kept, kept.finders()
        return self._finders[1]

    @contextmanager
    def _held_still(self) -> Iterator[int]:
        """Checks that the view is open and prevents changes meanwhile; yields the version."""
        try:
            with self._state.lock:
                self._check_open()
                yield self._state.version
        except SystemError as e:  # how numba reports an exception that a signal handler has raised
            raise (e.__cause__ or e) from None

    def to_dicts(self) -> list[Row]:
        """Return the whole answer as a list of dicts.

        Returns
        -------
        list of dict
            A dict for each row, duplicates repeated.

        Examples
        --------
        >>> import freshet
        >>> db = freshet.connect()
        >>> db.execute("CREATE TABLE t (a INT)")
        >>> db.create_view("n", "SELECT COUNT(*) AS n FROM t").to_dicts()
        [{'n': 0}]
        """
        return list(self.to_arrow().to_pylist())

    def __getitem__(self, key: Any) -> Row:
        """The row with a key, as in `get`; KeyError if there is none."""
        missing = object()
        row = self.get(key, missing)
        if row is missing:
            raise KeyError(key)
        assert isinstance(row, dict)
        return row

    def __contains__(self, key: Any) -> bool:
        """Whether a row has that key, as in `find`; for a dict, whether a row has these values. Every row from the
        iteration is in the view; it is looked up by its key if it has one."""
        if not isinstance(key, Mapping):
            return bool(self.find(key))
        names = [field.name for field in self._kept.plan.root.fields]
        known = {name.lower(): name for name in names}
        wanted: dict[str, Any] = {known.get(str(name).lower(), str(name)): value for name, value in key.items()}
        with self._held_still():
            ways = [[names[c] for c in finder.columns] for finder in self._ways()]
        way = next((columns for columns in ways if wanted.keys() >= set(columns)), None)
        if not wanted.keys() <= set(names) or (way is None and wanted.keys() != set(names)):
            return bool(self.find(key))  # raises an error that says what is wrong with it
        rows = iter(self) if way is None else self.find({name: wanted[name] for name in way})
        return any(all(_same(row[name], value) for name, value in wanted.items()) for row in rows)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[Row]:
        """The rows as dicts, at the version at which the iteration began."""
        for batch in self.to_arrow().to_batches():
            yield from batch.to_pylist()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The answer for programs that read Arrow: ``polars.DataFrame(view)``, ``pyarrow.table(view)``, DuckDB."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The first rows as a table, with the total number of rows and the version."""
        with self._held_still() as version:
            count = self.count()
            first = next(self.batches(_SHOWN, ordered=count <= 100_000), None)
        rows = [] if first is None else first.to_pylist()
        names = [field.name for field in self._kept.plan.root.fields]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{_cell(row, name)}</td>' for name in names)}</tr>" for row in rows)
        more = f"{len(rows)} of {count:,}" if count > len(rows) else f"{count:,}"
        unit = "row" if count == 1 else "rows"
        caption = f"{html.escape(self.name)}: {more} {unit} at version {version}"
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _same(a: Any, b: Any) -> bool:
    """Equality as in SQL's DISTINCT: NULL equals NULL, and NaN equals NaN."""
    return bool(a == b) or (a != a and b != b)


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    return "<i>NULL</i>" if value is None else html.escape(str(value))
