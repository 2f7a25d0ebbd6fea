"""Help for the tests of programs that use Freshet.

`assert_fresh` compares every view with its recomputed query; `freshet.testing.plugin` is a pytest plugin. pytest
imports it in every run on a machine that has Freshet, so the engine is imported only when it is used.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from freshet.database.db import Database

__all__ = ["assert_fresh"]

_SHOWN = 5  # rows shown of a difference


def assert_fresh(db: Database) -> None:
    """Assert that every view equals its query over the current tables.

    Writers wait meanwhile. It costs as much as running every view's query once.

    Parameters
    ----------
    db
        The database.

    Raises
    ------
    AssertionError
        A view differs; the message says which, at which version, and shows rows.

    Examples
    --------
    >>> import freshet
    >>> from freshet.testing import assert_fresh
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE t (a INT)")
    >>> view = db.create_view("n", "SELECT COUNT(*) AS n FROM t")
    >>> tx = db.apply({"t": [(1,), (2,)]})
    >>> assert_fresh(db)
    """
    from freshet.database.db import inside

    inner = inside(db)
    with inner.access.lock:
        for key, view in db.views.items():
            expected = _bag(inner.one_off.answer(inner.state.catalog.views[key]))
            actual = _bag(view.to_arrow())
            if actual != expected:
                lost, extra = expected - actual, actual - expected
                lines = [f"view {view.name} is not fresh at version {db.version}"]
                lines += _listed("only the query returns", lost) + _listed("only the view has", extra)
                raise AssertionError("\n".join(lines))


def _listed(what: str, rows: Counter[Any]) -> list[str]:
    if not rows:
        return []
    shown = [f"  {n} x {row}" for row, n in list(rows.items())[:_SHOWN]]
    return [f"{rows.total():,} rows that {what}:", *shown, *(["  ..."] if len(rows) > _SHOWN else [])]


def _bag(table: pa.Table) -> Counter[Any]:
    columns = [column.to_pylist() for column in table.columns]
    return Counter(tuple(map(_comparable, row)) for row in zip(*columns, strict=True))


def _comparable(value: Any) -> Any:
    """A hashable form of a value, in which NaN equals itself."""
    if isinstance(value, dict):
        return tuple((name, _comparable(part)) for name, part in value.items())
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return tuple(map(_comparable, value)) if isinstance(value, (list, tuple)) else value
