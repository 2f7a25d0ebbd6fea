"""Kernels that count their own steps: the same source, with a tick for every loop iteration and for every call of a
function that does more than name a value. The code between two ticks has no loop, so ticks equal operations up to a
constant. The normal kernels are not affected: the counting ones are compiled separately, and cost nothing unless they
are used.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from freshet.engine import join_results, query
from freshet.state.enumeration import DONE, enumerate_rows
from freshet.state.kernel import as_int64

_ticks = np.zeros(1, np.int64)
_made: dict[str, Any] = {}


class _Ticking(ast.NodeTransformer):
    def _with_tick(self, node: Any) -> Any:
        self.generic_visit(node)
        tick = ast.parse("_as_int64(_TICKS)[0] += 1").body
        node.body = tick + node.body
        return node

    visit_While = visit_For = _with_tick  # noqa: N815

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = []
        return self._with_tick(node)


def counting(kernel: Any) -> Callable[..., Any]:
    """A kernel, and all it calls, with ticks."""
    function = kernel.py_func
    name = f"{function.__module__}.{function.__name__}"
    if name not in _made:
        tree = _Ticking().visit(ast.parse(textwrap.dedent(inspect.getsource(function))))
        called = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        scope = dict(function.__globals__) | {"_as_int64": as_int64, "_TICKS": _ticks.ctypes.data}
        for other in called:
            if isinstance(scope.get(other), Dispatcher) and not _names_a_value(scope[other].py_func):
                scope[other] = counting(scope[other])
        exec(compile(ast.fix_missing_locations(tree), name, "exec"), scope)
        _made[name] = numba.njit(error_model="numpy")(scope[function.__name__])
    return _made[name]  # type: ignore[no-any-return]


def _names_a_value(function: Any) -> bool:
    """Whether all it does is to return one expression, as the accessors of state/tree_table do."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)
    return all(isinstance(part, (ast.Return, ast.Expr)) for part in definition.body)


def steps(kernel: Any, *args: Any) -> int:
    """The operations of one call."""
    counts = counting(kernel)
    _ticks[0] = 0
    counts(*args)
    return int(_ticks[0])


class Delays:
    """The operations between consecutive results of every enumeration while a test runs, its start and end included:
    the kernel is asked for one result at a time. Results of one call beyond a limit are not counted. Native steps,
    which call the same kernel internally, are not counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit: int = 3_000) -> None:
        self.kernel, self.plain, self.limit = counting(enumerate_rows), enumerate_rows, limit
        self.most = self.results = 0
        monkeypatch.setattr(join_results, "enumerate_rows", self._one_by_one)
        monkeypatch.setattr(query, "is_covered", lambda join: False)

    def reset(self) -> None:
        self.most = self.results = 0

    def _one_by_one(
        self, tree: Any, steps: Any, sources: Any, weights: Any, cursor: Any, products: Any, progress: Any, rows: Any,
        out: Any,
    ) -> int:  # fmt: skip
        n = 0
        while n < min(self.limit, len(rows)) and not progress[DONE]:
            _ticks[0] = 0
            n += self.kernel(tree, steps, sources, weights, cursor, products, progress, rows[n : n + 1], out[n : n + 1])
            self.most = max(self.most, int(_ticks[0]))
        self.results += n
        if n < len(rows) and not progress[DONE]:
            n += self.plain(tree, steps, sources, weights, cursor, products, progress, rows[n:], out[n:])
        return n
