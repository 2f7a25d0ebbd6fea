"""Kernels free an array after its last use, and taking its address is such a use: code that reads an array by its
address needs the array to be used once more, afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import freshet

ROOT = Path(freshet.__file__).parent
KERNELS = sorted(p for p in ROOT.rglob("*.py") if "@inlined" in p.read_text() or "@kernel" in p.read_text())


def freed_too_early(source: str) -> Iterator[str]:
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        given = {a.arg for a in function.args.args}  # which the caller holds
        names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
        for address in ast.walk(function):
            if isinstance(address, ast.Attribute) and address.attr == "data":
                inner = address.value
                array = inner.value if isinstance(inner, ast.Attribute) and inner.attr == "ctypes" else None
                if isinstance(array, ast.Name) and array.id not in given:
                    if not any(n.id == array.id and n.lineno > address.lineno for n in names):
                        yield f"{function.name}: {array.id}, line {address.lineno}"


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_arrays_outlive_their_addresses(path: Path) -> None:
    assert list(freed_too_early(path.read_text())) == []


def test_an_array_freed_too_early_is_found() -> None:
    source = "def f(run):\n    rows = np.empty(1)\n    run[0] = rows.ctypes.data\n    return ask(run)\n"
    assert list(freed_too_early(source)) == ["f: rows, line 3"]
    assert list(freed_too_early(source.replace("ask(run)", "outlives(rows, rows, ask(run))"))) == []
