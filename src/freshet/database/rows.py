"""A view as a collection of rows: found by key, counted, iterated over, shown, handed to others as Arrow."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from freshet.database.kept_view import KeptView
from freshet.database.lookup import NeverThereError, Row, chosen, key_row, lane_form, rows_of
from freshet.database.state import State
from freshet.engine.maintained import Finder, Maintained
from freshet.errors import PlanError, brief

_SHOWN = 10  # rows that a notebook shows


class RowCollection(ABC):
    """What a view can do as a collection of rows."""

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

        A view with GROUP BY is looked up by its groups, one over a single table by the table's primary key, where the
        answer shows them; and any view by the columns of an index (``CREATE INDEX ON view (column)``).

        Parameters
        ----------
        key
            The value of the key's column, a tuple where it has several, or a dict of columns to values.
        default
            What to return where no row has that key.
        by
            The columns that the key is of; by default those that identify a row, else those of the only index.

        Returns
        -------
        dict
            The row, or `default`.

        Raises
        ------
        PlanError
            Rows cannot be found by these columns, several rows have the key (`find` returns them all), or the value
            is of another type than its column.

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
        found = self.find(key, by=by)
        if len(found) > 1:
            raise PlanError(f"{len(found)} rows of view {self.name} have the key {brief(key)}; find() returns them all")
        return found[0] if found else default

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
            Rows cannot be found by these columns, or the value is of another type than its column.

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
        with self._standing_still():
            kept, fields = self._kept.operator, self._kept.plan.root.fields
            finder, values = chosen(self._ways(), fields, self.name, key, by)
            try:
                lanes = [lane_form(v, fields[c]) for v, c in zip(values, finder.columns, strict=True)]
            except NeverThereError:
                return []
            row = key_row([fields[c].type for c in finder.columns], lanes, kept.pool)
            return [] if row is None else rows_of(finder, row, fields, kept.pool)

    def _ways(self) -> Sequence[Finder]:
        kept = self._kept.operator
        if self._finders is None or self._finders[0] is not kept:
            self._finders = kept, kept.finders()
        return self._finders[1]

    @contextmanager
    def _standing_still(self) -> Iterator[int]:
        """Open, and nobody changes it meanwhile; gives the version."""
        try:
            with self._state.lock:
                self._check_open()
                yield self._state.version
        except SystemError as e:  # how numba gives an exception that a signal handler has raised
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
        """The row with a key, as `get` finds it; KeyError where there is none."""
        missing = object()
        found = self.get(key, missing)
        if found is missing:
            raise KeyError(key)
        assert isinstance(found, dict)
        return found

    def __contains__(self, key: Any) -> bool:
        """Whether a row has that key, as `find` finds it; of a dict, whether a row has these values. Each row that
        iteration gives is in the view, found by its key where it has one."""
        if not isinstance(key, Mapping):
            return bool(self.find(key))
        names = [field.name for field in self._kept.plan.root.fields]
        known = {name.lower(): name for name in names}
        wanted: dict[str, Any] = {known.get(str(name).lower(), str(name)): value for name, value in key.items()}
        with self._standing_still():
            ways = [[names[c] for c in finder.columns] for finder in self._ways()]
        way = next((columns for columns in ways if wanted.keys() >= set(columns)), None)
        if not wanted.keys() <= set(names) or (way is None and wanted.keys() != set(names)):
            return bool(self.find(key))  # says what is wrong with it
        rows = iter(self) if way is None else self.find({name: wanted[name] for name in way})
        return any(all(_same(row[name], value) for name, value in wanted.items()) for row in rows)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[Row]:
        """The rows as dicts, of the version at which the iteration began."""
        for batch in self.to_arrow().to_batches():
            yield from batch.to_pylist()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The answer for whatever reads Arrow: ``polars.DataFrame(view)``, ``pyarrow.table(view)``, DuckDB."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The first rows as a table, with the number of all of them and the version."""
        with self._standing_still() as version:
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
    """As rows are equal in SQL's DISTINCT: NULL is NULL, and what is no number equals itself."""
    return bool(a == b) or (a != a and b != b)


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    return "<i>NULL</i>" if value is None else html.escape(str(value))
