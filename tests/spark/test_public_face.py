"""Every public function on Spark has a docstring in sections, and its examples run, one after the other in one session:
`spark` is the session and `folder` an empty folder, and later ones continue with the results of `maintain`."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshet.spark

FIRST = ("maintain", "split", "quarantined", "snapshot", "views", "materialize", "read_materialized")


@pytest.mark.parametrize("name", freshet.spark.__all__)
def test_docstring_teaches(name: str) -> None:
    each = getattr(freshet.spark, name)
    text = inspect.getdoc(each) or ""
    summary, _, rest = text.partition("\n\n")
    assert summary.endswith(".") and len(summary.splitlines()) == 1
    described = rest.partition("Parameters\n----------\n")[2].partition("\nReturns\n-------\n")
    for parameter in inspect.signature(each).parameters:
        lines = [line.strip() for line in described[0].splitlines() if not line.startswith(" ")]
        assert any(parameter in line.split(", ") for line in lines), parameter
    assert described[2] and "Examples\n--------\n" in rest and ">>> " in rest


def test_only_what_is_read_first_is_positional() -> None:
    kinds = {name: p.kind for name, p in inspect.signature(freshet.spark.maintain).parameters.items()}
    positional = [name for name, kind in kinds.items() if kind is not inspect.Parameter.KEYWORD_ONLY]
    assert positional == ["spark", "views", "tables"]


def test_examples_run(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, Any] = {name: getattr(freshet.spark, name) for name in freshet.spark.__all__}
    names |= {"spark": spark, "folder": str(tmp_path)}
    for name in (*FIRST, *(n for n in freshet.spark.__all__ if n not in FIRST)):
        text = inspect.getdoc(names[name]) or ""
        example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
        said: list[str] = []
        runner = doctest.DocTestRunner()
        assert runner.run(example, out=said.append, clear_globs=False).failed == 0, "".join(said)
        names |= example.globs
