"""The requests that native steps make of Python, and how they are answered (descriptions.py states the law).

Requests arrive through one ctypes callback, which acquires the GIL. An exception cannot propagate through native code:
a request that fails stores its exception, the steps stop, and the caller that ran them raises it.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from freshet.budget import look
from freshet.engine import descriptions as at
from freshet.engine.aggregate import Aggregate
from freshet.engine.join import Join
from freshet.engine.maintained import Outlet
from freshet.engine.orders import Order
from freshet.engine.passing import Passing
from freshet.engine.sources import Source
from freshet.engine.table import RowChange, Table
from freshet.errors import EvaluationError, StateError
from freshet.plans.model import QueryPlan
from freshet.scalar.column import Column
from freshet.scalar.expression import ColumnRef
from freshet.scalar.lanes import width
from freshet.scalar.types import Type
from freshet.state.arena import Growable
from freshet.state.arrays import Int64s
from freshet.state.rows import TOO_MANY_COPIES, HeldRows, RowBuffer, Rows, Sink
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots


class Owner(Protocol):
    """The select."""

    plan: QueryPlan
    join: Join | None
    passing: Passing | None
    aggregate: Aggregate | None
    pool: StringPool
    steps: Growable
    types: list[Type]
    row_types: list[Type]
    wanted: list[ColumnRef]
    sources: list[Table]
    outlet: Outlet
    distinguishes: bool
    raw: HeldRows
    pending: HeldRows
    touched: bool
    inputs: list[tuple[Any, Table]]
    results: Sink
    native: Any
    listener: Callable[[Any, Rows], None] | None

    def sink(self) -> int:
        """Which sink of engine/steps receives the results; groups also if Python processes them."""

    def _pass_on(self, chunks: Sequence[Rows]) -> None: ...

    def _above_groups(self, columns: list[Column], weights: Int64s) -> None: ...


class Answering:
    """Answers the requests of one select. `grouped`: whether rows enter groups natively."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.plan = owner.plan
        self.failure: BaseException | None = None
        self.stale, self.grouped = True, False
        self.touched: Slots | None = None  # the aggregate's list of touched groups, as described
        self.swept: Int64s = np.empty((0, at.SWEPT_WIDTH), np.int64)
        self._objects: list[Any] = []  # what steps refer to by number
        token = next(_TOKENS)
        _ALL[token] = self
        self.run = np.zeros(at.RUN_WIDTH, np.int64)
        self.run[at.CALLBACK], self.run[at.TOKEN] = _ADDRESS, token
        self.select: Int64s = np.zeros(at.SELECT_WIDTH, np.int64)
        self.raw = RowBuffer(width(owner.row_types), 0)
        self.pending = RowBuffer(width(owner.types), 1)
        self._objects += [self.raw, self.pending]

    @property
    def join(self) -> Join:
        assert self.owner.join is not None
        return self.owner.join

    def refresh(self) -> None:
        """Writes the current addresses to the descriptions."""
        raise NotImplementedError

    def ready(self) -> None:
        """Called before steps run."""
        if self.stale or (self.grouped and self.touched is not self.owner.aggregate.touched):  # type: ignore[union-attr]
            self.refresh()
        if self.owner.touched:
            self.owner.touched, self.select[at.CHANGED] = False, 1
        if self.owner.raw or self.owner.pending:
            self.gather()

    def gather(self) -> None:
        """Collects what the select's own methods have left behind."""
        for kept, buffer in ((self.owner.raw, self.raw), (self.owner.pending, self.pending)):
            for rows in kept.take():
                buffer.put(rows)

    def raise_failure(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    # Requests ----------------------------------------------------------------------------------------------------

    def answer(self, what: int, whom: int, n: int) -> None:
        _QUESTIONS[what](self, whom, n)
        if self.stale or what == at.GROW_GROUPS:
            self.refresh()

    def _grow(self, whom: int, n: int) -> None:
        self._objects[whom].reserve(n)
        self.stale = True

    def _grow_buffer(self, whom: int, n: int) -> None:
        self._objects[whom].make_room(n)

    def _grow_groups(self, whom: int, n: int) -> None:
        assert self.owner.aggregate is not None
        self.owner.aggregate.list_more(n)

    def _rows(self, lanes: int, n: int) -> Rows:
        """The rows that a request is about."""
        return Rows(
            _copied(self.run[at.ROWS_AT], n * lanes, ctypes.c_int64).reshape(n, lanes),
            _copied(self.run[at.WEIGHTS_AT], n, ctypes.c_int64),
        )

    def _evaluate(self, whom: int, n: int) -> None:
        self.owner._pass_on([self._rows(width(self.owner.row_types), n)])
        self.ready()

    def _pass(self, lanes: int, n: int) -> None:
        assert self.owner.passing is not None
        self.owner.results.extend([self.owner.passing.rows(self._rows(lanes, n))])
        self.ready()

    def _show(self, whom: int, n: int) -> None:
        aggregate, grouping = self.owner.aggregate, self.plan.grouping
        assert aggregate is not None and grouping is not None
        keys = width([k.type for k in grouping.keys])
        rows = self._rows(keys + aggregate.answers.columns, n)
        columns = aggregate.columns(
            np.ascontiguousarray(rows.lanes[:, :keys]), np.ascontiguousarray(rows.lanes[:, keys:])
        )
        self.owner._above_groups(columns, rows.weights)
        self.gather()

    def _overweight(self, whom: int, n: int) -> None:
        order: Order = self._objects[whom]
        tuples = _copied(self.run[at.ROWS_AT], n & 0xFFFFFFFF, ctypes.c_int32)
        weights = _copied(self.run[at.WEIGHTS_AT], n & 0xFFFFFFFF, ctypes.c_int64)
        self.join.results.check_weights(order, tuples, weights, order.buffers.slots[: n >> 32])

    def _reweighed(self, whom: int, n: int) -> None:
        table: Table = self._objects[whom]
        assert table.weights is not None
        table.weights.changed()

    def _change_weights(self, whom: int, n: int) -> None:
        table: Table = self._objects[whom]
        slots = _copied(self.run[at.ROWS_AT], n, ctypes.c_int32)
        to = _copied(self.run[at.WEIGHTS_AT], n, ctypes.c_int64)
        nothing = np.empty(0, np.int32)
        change = RowChange(nothing, np.empty((0, table.width), np.int64), np.empty(0, np.int64), slots, to)
        self.join.reweigh(table, slots, table.reweigh(change))
        self.ready()

    def _sweep(self, whom: int, n: int) -> None:
        self.join.left = True
        self.join.sweep()
        for row, (dictionary, columns) in zip(self.swept, self.join.swept, strict=True):
            row[at.SWEPT_WAIT] = dictionary.patience(sum(c.source.tuples.used for c in columns))

    def _no_value(self, whom: int, n: int) -> None:
        assert self.owner.aggregate is not None
        raise self.owner.aggregate.too_large(n)

    def _broken(self, whom: int, n: int) -> None:
        raise StateError("a group lost more rows than it had; the view and its tables disagree: rebuild the view")

    def _copies(self, whom: int, n: int) -> None:
        raise EvaluationError(TOO_MANY_COPIES)

    def _choose(self, whom: int, n: int) -> None:
        source: Source = self._objects[whom]
        node, count = self.join.roles[id(source)][n >> 32], n & 0xFFFFFFFF
        members = self.join.members(node, _copied(self.run[at.ROWS_AT], count, ctypes.c_int32))
        ctypes.memmove(int(self.run[at.WEIGHTS_AT]), members.ctypes.data, members.nbytes)
        self.run[at.RESULT] = len(members)

    def _look(self, whom: int, n: int) -> None:
        look()


_QUESTIONS: dict[int, Callable[[Answering, int, int], None]] = {
    at.GROW: Answering._grow,
    at.GROW_BUFFER: Answering._grow_buffer,
    at.GROW_GROUPS: Answering._grow_groups,
    at.EVALUATE: Answering._evaluate,
    at.SHOW: Answering._show,
    at.OVERWEIGHT: Answering._overweight,
    at.REWEIGHED: Answering._reweighed,
    at.CHANGE_WEIGHTS: Answering._change_weights,
    at.SWEEP: Answering._sweep,
    at.NO_VALUE: Answering._no_value,
    at.BROKEN: Answering._broken,
    at.COPIES: Answering._copies,
    at.LOOK: Answering._look,
    at.CHOOSE: Answering._choose,
    at.PASS_ON: Answering._pass,
}

_TOKENS = itertools.count()
_ALL: weakref.WeakValueDictionary[int, Answering] = weakref.WeakValueDictionary()


def _answered(token: int, what: int, whom: int, n: int) -> int:
    """1, or 0 if it failed: an exception cannot propagate through native code."""
    native = _ALL[token]
    try:
        native.answer(what, whom, n)
    except BaseException as e:
        native.failure = e
        return 0
    return 1


def _copied(address: int, n: int, kind: Any) -> Any:
    return np.frombuffer((kind * n).from_address(int(address)), kind).copy()


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(_answered)
_ADDRESS = ctypes.cast(_CALLBACK, ctypes.c_void_p).value or 0
