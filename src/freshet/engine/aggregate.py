"""GROUP BY, maintained incrementally: takes rows with weights, returns the change of the answer.

A group exists while the weights of its rows sum to more than zero. Its state is a row of lanes (see `accumulators`),
linear in the weights; next to it is the answer as last emitted, also as a row of lanes. So a flush reads the new answer
of every touched group, compares it with the last emitted one, and emits the difference: a group that was created and
deleted within the transaction, or has the same answer as before, emits nothing. A flush that fails changes nothing, and
rows applied with the opposite weights take the transaction back exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from freshet.aggregates import whole_sum as whole
from freshet.aggregates.accumulators import Feed, mark_texts
from freshet.aggregates.function import Answer, function_of
from freshet.errors import EvaluationError, StateError
from freshet.scalar import lanes
from freshet.scalar.column import Column
from freshet.scalar.expression import AggregateCall
from freshet.scalar.types import Type
from freshet.state.arena import Scope
from freshet.state.arrays import Bools, Int64s
from freshet.state.kernel import AHEAD, inlined, kernel
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots, Tuples, prefetch_slots

_TOUCHED, _EMITTED = 1, 2  # flags of a group: changed since the last flush; its answer was emitted
_ROWS = 0  # lane of the state row that counts the group's rows
_ANSWERS = 0  # place in meta: rows of the answer


@kernel("i8(i4[::1], i8[::1], i8[:,::1], i1[::1], i4[::1], i8)")
def touch(groups: Any, weights: Any, state: Any, flags: Any, touched: Any, known: Any) -> Any:
    """Counts rows and lists the groups not yet listed; returns how many are."""
    for i in range(len(groups)):
        if i % AHEAD == 0:
            prefetch_slots(state, groups, i)
        group = groups[i]
        state[group, _ROWS] += weights[i]
        if flags[group] & _TOUCHED == 0:
            flags[group] |= _TOUCHED
            touched[known] = group
            known += 1
    return known


@inlined
def _same(answers: Any, group: Any, fresh: Any, row: Any) -> Any:
    for k in range(fresh.shape[1]):
        if answers[group, k] != fresh[row, k]:
            return False
    return True


@kernel("i8(i4[::1], i8[:,::1], i1[::1], i8[:,::1], i8[:,::1], b1, i8[::1])")
def compare_answers(groups: Any, state: Any, flags: Any, answers: Any, fresh: Any, always: Any, found: Any) -> Any:
    """Counts the answers to retract and to emit; returns a group with a negative count, or -1."""
    for i in range(len(groups)):
        if i % AHEAD == 0:
            prefetch_slots(state, groups, i)
            prefetch_slots(answers, groups, i)
        group = groups[i]
        rows = state[group, _ROWS]
        if rows < 0:
            return group
        emitted = flags[group] & _EMITTED != 0
        exists = always or rows > 0
        if emitted and exists and _same(answers, group, fresh, i):
            continue
        found[0] += emitted
        found[1] += exists
    return -1


@kernel("i8(i4[::1], i8[:,::1], i1[::1], i8[:,::1], i8[:,::1], i8[:,::1], b1, i8, i8[:,::1], i8[:,::1], i4[::1])")
def emit_changes(
    groups: Any,
    state: Any,
    flags: Any,
    answers: Any,
    fresh: Any,
    keys: Any,
    always: Any,
    retracted: Any,
    out_keys: Any,
    out: Any,
    emptied: Any,
) -> Any:
    """Writes old answers, then new ones from row `retracted` on, and stores the new ones as last emitted; lists the
    groups that no longer exist, and clears their state."""
    old, new, gone = 0, retracted, 0
    for i in range(len(groups)):
        if i % AHEAD == 0:
            prefetch_slots(answers, groups, i)
            prefetch_slots(keys, groups, i)
        group = groups[i]
        emitted = flags[group] & _EMITTED != 0
        exists = always or state[group, _ROWS] > 0
        flags[group] = _EMITTED if exists else 0
        if not exists:
            emptied[gone] = group
            gone += 1
            state[group, :] = 0
        if emitted and exists and _same(answers, group, fresh, i):
            continue
        if emitted:
            for k in range(out_keys.shape[1]):
                out_keys[old, k] = keys[group, k]
            for k in range(out.shape[1]):
                out[old, k] = answers[group, k]
            old += 1
        if exists:
            for k in range(out_keys.shape[1]):
                out_keys[new, k] = keys[group, k]
            for k in range(out.shape[1]):
                out[new, k] = fresh[i, k]
                answers[group, k] = fresh[i, k]
            new += 1
    return gone


class Aggregate:
    """Aggregates by group. With `grand_total` there are no keys and there is always exactly one row."""

    def __init__(
        self,
        scope: Scope,
        pool: StringPool,
        key_types: Sequence[Type],
        calls: Sequence[AggregateCall],
        *,
        grand_total: bool,
    ) -> None:
        assert not (grand_total and key_types)
        self._scope, self._pool, self._grand_total = scope, pool, grand_total
        self._key_types, self.calls = tuple(key_types), tuple(calls)
        self.functions = [function_of(c) for c in calls]
        self.types = tuple(c.type for c in calls)
        self._out = lanes.layout(self.types)
        self.null_lane = lanes.value_lanes(self.types)
        self.feeds, self.feed_of = self._plan()
        self.in_order = [feed for feed in self.feeds if feed.ordered is not None or feed.values is not None]
        self.program = self._finishing()
        width = _ROWS + 1 + sum(feed.lanes for feed in self.feeds)
        self.groups = Tuples(scope.scope("groups"), lanes.width(key_types))
        self.state = scope.array("state", np.int64, columns=width)
        self.answers = scope.array("answers", np.int64, columns=max(lanes.width(self.types), 1))
        self.flags = scope.array("flags", np.int8)
        self.meta = scope.array("meta", np.int64)
        self.room = 0
        self.touched: Slots = np.empty(64, np.int32)
        self.listed = np.zeros(1, np.int64)  # number of groups listed
        self._begin()

    # Stored state -----------------------------------------------------------------------------------------------

    def _plan(self) -> tuple[list[Feed], list[Feed | None]]:
        """All feeds, and the feeds of each call; COUNT(*) reads the count of rows and needs none."""
        shared: dict[Any, list[int]] = {}
        for i, call in enumerate(self.calls):
            if call.args or call.filter is not None:
                key = call.args, call.filter, call.distinct, call.copies, self.functions[i].shares(call)
                shared.setdefault(key, []).append(i)
        feeds: list[Feed] = []
        feed_of: list[Feed | None] = [None] * len(self.calls)
        lane = _ROWS + 1
        for number, members in enumerate(shared.values()):
            feed = Feed(self._scope.scope(f"feed{number}"), self._pool, members[0], self.calls[members[0]], lane)
            for i in members:
                feed_of[i] = feed
                self.functions[i].keep(feed, self.calls[i])
            lane += feed.lanes
            feeds.append(feed)
        return feeds, feed_of

    def _finishing(self) -> Int64s:
        """The program that computes answers from state lanes; calls without a step in it write their answers
        themselves."""
        steps = []
        self.step_calls: list[int] = []
        self.writers: list[int] = []
        for i, (call, feed) in enumerate(zip(self.calls, self.feed_of, strict=True)):
            step = self.functions[i].step(call, feed, self._out[i], self._null_place(i), _ROWS)
            if step:
                steps.append(step)
            (self.step_calls if step else self.writers).append(i)
        return np.array(steps, np.int64).reshape(-1, whole.STEP_WIDTH)

    def _null_place(self, call: int) -> tuple[int, int]:
        return self.null_lane + call // lanes.NULLS, 1 << call % lanes.NULLS

    def _begin(self) -> None:
        """The only row of a grand total exists before any input row: the first flush emits it."""
        if self._grand_total:
            self.reserve(1)
            if not self.flags.data[0] & _EMITTED:
                self.flags.data[0] |= _TOUCHED
                self.touched[0], self.listed[0] = 0, 1

    def list_more(self, groups: int) -> None:
        """Makes room to list that many more groups as touched."""
        listed = int(self.listed[0])
        if listed + groups > len(self.touched):
            bigger = np.empty(2 * (listed + groups), np.int32)
            bigger[:listed] = self.touched[:listed]
            self.touched = bigger

    def reserve(self, groups: int) -> None:
        if groups <= self.room:
            return
        for array in (self.state, self.answers, self.flags):
            array.grow(groups)
        self.room = min(a.capacity for a in (self.state, self.answers, self.flags))
        for feed in self.feeds:
            feed.reserve(self.room)

    # Changes -----------------------------------------------------------------------------------------------------

    def apply(
        self,
        keys: Sequence[Column],
        args: Sequence[Sequence[Column]],
        filters: Sequence[Bools | None],
        weights: Int64s,
    ) -> None:
        """Inserts rows (positive weight) or deletes them (negative weight); `args[i]` and `filters[i]` belong to call
        i. If a call needs the number of copies that a row represents, it is the last argument."""
        rows = len(weights)
        if rows == 0:
            return
        if self._grand_total:
            groups = np.zeros(rows, np.int32)
        else:
            groups = self.groups.add(lanes.pack(keys, self._pool, rows))
            self.reserve(self.groups.used)
        self.list_more(rows)
        state = self.state.data
        self.listed[0] = touch(groups, weights, state, self.flags.data, self.touched, self.listed[0])
        for feed in self.feeds:
            feed.apply(groups, args[feed.call], filters[feed.call], weights, state)

    def visits(self) -> int:
        """The nodes of ordered structures visited since they were last asked for."""
        return sum(feed.visits() for feed in self.in_order)

    def flush(self) -> tuple[list[Column], Int64s]:
        """The change of the answer since the last flush: old rows with weight -1, then new ones with +1."""
        touched = self.touched[: self.listed[0]]
        keys, state, flags, answers = self.groups.lanes.data, self.state.data, self.flags.data, self.answers.data
        for feed in self.feeds:
            if feed.values is not None:
                feed.values.settle()
        fresh = self._read(touched)
        found = np.zeros(2, np.int64)
        if compare_answers(touched, state, flags, answers, fresh, self._grand_total, found) >= 0:
            raise StateError("a group lost more rows than it had; the view and its tables disagree: rebuild the view")
        old, new = int(found[0]), int(found[1])
        out_keys = np.empty((old + new, 0 if self._grand_total else keys.shape[1]), np.int64)
        out = np.empty((old + new, fresh.shape[1]), np.int64)
        emptied = np.empty(len(touched), np.int32)
        gone = emit_changes(touched, state, flags, answers, fresh, keys, self._grand_total, old, out_keys, out, emptied)
        if gone:
            self.groups.remove(emptied[:gone])
            for feed in self.feeds:
                feed.clear(emptied[:gone])
        self.listed[0] = 0
        self.meta.data[_ANSWERS] += new - old
        weights = np.ones(old + new, np.int64)
        weights[:old] = -1
        return self.columns(out_keys, out), weights

    def _read(self, groups: Slots) -> Int64s:
        """The current answers of groups, computed from their state, as rows of lanes."""
        state = self.state.data
        out = np.empty((len(groups), self.answers.columns), np.int64)
        out[:, self.null_lane :] = 0
        wrong = whole.finish(groups, state, self.program, out)
        if wrong >= 0:
            raise self.too_large(wrong)
        for i in self.writers:
            feed = self.feed_of[i]
            assert feed is not None
            answer = Answer(groups, state, out, self._out[i], *self._null_place(i))
            self.functions[i].write(self.calls[i], feed, answer)
        return out

    def too_large(self, step: int) -> EvaluationError:
        """The error for a step of the program whose result does not fit."""
        call = self.calls[self.step_calls[step]]
        reason = f"{call.function.upper()} does not fit {call.type}; cast its argument to a type with more digits"
        return EvaluationError(reason)

    def columns(self, keys: Int64s, answers: Int64s) -> list[Column]:
        return lanes.unpack(keys, self._key_types, self._pool) + lanes.unpack(answers, self.types, self._pool)

    # The answer --------------------------------------------------------------------------------------------------

    def count(self) -> int:
        """The number of rows in the answer as of the last flush."""
        return int(self.meta.data[_ANSWERS])

    def batches(self, rows: int) -> Iterator[list[Column]]:
        """The answer as of the last flush, at most `rows` rows at a time."""
        slots = 1 if self._grand_total else self.groups.used
        for start in range(0, slots, rows):
            emitted = np.flatnonzero(self.flags.data[start : min(start + rows, slots)] & _EMITTED) + start
            if len(emitted):
                yield self.columns(self.groups.lanes.data[emitted], self.answers.data[emitted])

    def found(self, key: Int64s) -> list[Column]:
        """The row of the answer as of the last flush that has this key, given as a row of lanes, or none."""
        emitted = self._emitted(key)
        return self.columns(self.groups.lanes.data[emitted], self.answers.data[emitted])

    def found_lanes(self, key: Int64s) -> list[tuple[list[int], ...]]:
        """The same as lanes, those of the keys and those of the aggregates."""
        return [
            (self.groups.lanes.data[slot].tolist(), self.answers.data[slot].tolist()) for slot in self._emitted(key)
        ]

    def among(self, keys: Sequence[Column], rows: int) -> tuple[Slots, list[Column]]:
        """Which of the rows have the keys of a group in the answer as of the last flush, and these groups."""
        slots = self.groups.find(lanes.pack(keys, self._pool, rows))
        at = np.flatnonzero(slots >= 0).astype(np.int32)
        at = at[self.flags.data[slots[at]] & _EMITTED != 0]
        found = slots[at]
        return at, self.columns(self.groups.lanes.data[found], self.answers.data[found])

    def _emitted(self, key: Int64s) -> list[int]:
        slot = int(self.groups.find(key)[0])
        return [slot] if slot >= 0 and self.flags.data[slot] & _EMITTED else []

    def string_marks(self, marked: Bools) -> None:
        """Marks every pool id that this state contains."""
        if not self._grand_total:
            mark_texts(self.groups.lanes.data, self.groups.slots(), self._key_types, 0, marked)
        emitted = np.flatnonzero(self.flags.data & _EMITTED).astype(np.int32)
        mark_texts(self.answers.data, emitted, self.types, 0, marked)
        for feed in self.feeds:
            feed.mark(marked)

    def reset(self) -> None:
        """Removes all rows."""
        self.groups.reset()
        for array in (self.state, self.answers, self.flags, self.meta):
            array.reset()
        for feed in self.feeds:
            feed.reset()
        self.room = self.listed[0] = 0
        self._begin()

    def nbytes(self) -> int:
        return self._scope.nbytes()
