"""The public API is small and documented: every public name has a docstring with an example that runs, and public
objects do not expose internals."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import freshet
from freshet.database.following import Changes

FACES = (
    freshet.Database,
    freshet.View,
    freshet.Transaction,
    freshet.PendingTransaction,
    freshet.Subscription,
    Changes,
)
#: The public attributes of these; all others begin with an underscore.
SHOWN = {
    freshet.Database: {
        "advance", "apply", "catalog", "changes", "close", "closed", "create_function", "create_view", "execute",
        "interrupt", "metrics", "nbytes", "on_disk", "query", "transaction", "tuples", "version", "view", "views",
    },
    freshet.View: {
        "at", "batches", "changes", "count", "explain", "find", "get", "metrics", "name", "plan", "schema", "subscribe",
        "to_arrow", "to_dicts", "to_pandas", "to_polars",
    },
    freshet.Transaction: {"deltas", "errors", "late", "version"},
    freshet.PendingTransaction: {
        "apply", "commit", "deltas", "errors", "execute", "query", "rollback", "version",
    },
    freshet.Subscription: {"callback", "close", "closed", "since"},
    Changes: {"close", "version"},
}  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    for name in freshet.__all__:
        if name == "__version__":
            continue
        each = getattr(freshet, name)
        yield name, each
        if inspect.isclass(each):
            ours = [part for part in each.__mro__ if part.__module__.startswith("freshet.database.")] or [each]
            members = {member: value for part in reversed(ours) for member, value in vars(part).items()}
            for member, value in members.items():
                if not member.startswith("_") and (callable(value) or isinstance(value, (property, classmethod))):
                    yield f"{name}.{member}", value


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring_teaches(name: str) -> None:
    each = PUBLIC[name]
    text = inspect.getdoc(each)
    assert text is not None and "\n" in text
    summary, _, rest = text.partition("\n\n")
    assert summary.endswith((".", ":")) and len(summary.splitlines()) <= 2
    assert "Examples\n--------\n>>> " in rest
    if inspect.isclass(each) or isinstance(each, property):
        return
    function = each.__func__ if isinstance(each, classmethod) else each
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters if p not in ("self", "cls")]
    described = rest.partition("Parameters\n----------\n")[2]
    assert all(f"{p}\n    " in described for p in parameters)
    assert signature.return_annotation == "None" or "Returns\n-------\n" in rest or "Yields\n------\n" in rest


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run(name: str) -> None:
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(PUBLIC[name]) or "", {}, name, None, 0)
    assert example.examples
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example, out=said.append).failed == 0, "".join(said)


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_faces_show_nothing_else(face: type) -> None:
    assert {name for name in dir(face) if not name.startswith("_")} <= SHOWN[face]


def test_objects_show_nothing_else() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT)")
    view = db.create_view("v", "SELECT a FROM t")
    subscription, changes = view.subscribe(print), view.changes()
    tx = db.apply({"t": []})
    for each in (db, view, tx, subscription, changes):
        assert {name for name in dir(each) if not name.startswith("_")} <= SHOWN[type(each)]
