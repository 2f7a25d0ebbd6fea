"""The public face teaches: every name has a docstring, every parameter is in it, and every example in it runs."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest

import freshet

#: Methods that users do not call, though other modules of the package do.
INNER = {"check_open", "history", "unsubscribe", "close", "row_counts", "nbytes", "tuples"}


def public() -> Iterator[tuple[str, Any]]:
    for name in freshet.__all__:
        thing = getattr(freshet, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            yield name, thing
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            for inner, member in {k: v for part in reversed(parts(thing)) for k, v in vars(part).items()}.items():
                if not inner.startswith("_") and isinstance(member, (FunctionType, classmethod, property)):
                    yield f"{name}.{inner}", member


def parts(thing: Any) -> list[type]:
    """A class, and what it inherits from others of the package."""
    return [part for part in thing.__mro__ if part.__module__.startswith("freshet.database")] or [thing]


@pytest.mark.parametrize(("name", "thing"), list(public()), ids=[name for name, _ in public()])
def test_docstring(name: str, thing: Any) -> None:
    text = inspect.getdoc(thing)
    assert text, f"{name} has no docstring"
    assert re.match(r"[A-Zλ].*\.", text.replace("\n", " ")), f"{name}: a summary is a sentence"
    taught = name in ("connect", "plan", "enclosure") or name.startswith(("Database.", "View."))
    if taught and isinstance(thing, FunctionType) and name.split(".")[-1] not in INNER:
        for parameter in inspect.signature(thing).parameters:
            if parameter != "self":
                assert re.search(rf"^{parameter}$", text, re.M), f"{name}: {parameter} is not described"


def test_examples_run() -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    tried = 0
    for name, thing in public():
        if "." in name:
            continue
        for part in parts(thing) if inspect.isclass(thing) else [thing]:
            for case in finder.find(part, name):
                tried += bool(case.examples)
                assert runner.run(case).failed == 0, case.name
    assert tried >= 8
