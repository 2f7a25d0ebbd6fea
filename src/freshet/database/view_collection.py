"""A database as a collection of views: looked up by name, counted, iterated over, displayed."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from freshet.database.figures import Figures
from freshet.database.view import View


class ViewCollection(Figures, ABC):
    """The part of `Database` that is a collection of views."""

    @property
    @abstractmethod
    def views(self) -> dict[str, View]: ...

    @abstractmethod
    def execute(
        self, sql: str, params: Any = None, *, seconds: float | None = None, rows: int | None = None
    ) -> Any: ...

    def __getitem__(self, name: str) -> View:
        """The view of that name, as in `view`; KeyError if there is none."""
        view = self.views.get(name.lower())
        if view is None:
            raise KeyError(name)
        return view

    def __contains__(self, name: object) -> bool:
        """Whether there is a view of that name."""
        return isinstance(name, str) and name.lower() in self.views

    def __iter__(self) -> Iterator[str]:
        """The names of the views, in order of creation."""
        return iter([view.name for view in self.views.values()])

    def __len__(self) -> int:
        return len(self.views)

    def __bool__(self) -> bool:
        return True  # also without views

    def _repr_html_(self) -> str:
        """Tables and views with the number of their rows, and the version."""
        if self.closed:
            return "<p>a closed database</p>"
        kinds: list[tuple[str, pa.Table]] = [(k, self.execute(f"SHOW {k.upper()}S")) for k in ("table", "view")]
        body = "".join(
            f"<tr><td>{kind}</td><td>{html.escape(row['name'])}</td><td>{row['rows']:,}</td></tr>"
            for kind, listed in kinds
            for row in listed.to_pylist()
        )
        head = "<thead><tr><th></th><th>name</th><th>rows</th></tr></thead>"
        return f"<table><caption>version {self.version}</caption>{head}<tbody>{body}</tbody></table>"
