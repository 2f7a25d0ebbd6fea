"""The tuples of a join's nodes, and the keys of its edges.

A source is a stored table, or the dictionary of a generalized node seen as one. Edges that read the same key of the
same source share its ids, and all sources that they connect share one dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from freshet.logical.query import Field
from freshet.plans.model import Edge, QueryPlan
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, evaluate_filter
from freshet.scalar.expression import ColumnRef, Expression, Reference, transform
from freshet.scalar.lanes import layout, pack
from freshet.scalar.types import Type
from freshet.state.arena import Growable, Scope
from freshet.state.arrays import Int64s
from freshet.state.kernel import kernel
from freshet.state.keys import PART_COLUMNS, Dictionary
from freshet.state.strings import StringPool
from freshet.state.tuples import Slots, Tuples


class Source(Protocol):
    tuples: Tuples
    weights: Growable | None

    @property
    def capacity(self) -> int: ...

    @property
    def counted(self) -> bool: ...

    @property
    def heaviest(self) -> int: ...

    def lane(self, column: int) -> tuple[int, int, int]: ...

    def reader(self, slots: Slots) -> Callable[[Reference], Column]: ...


@kernel("i8(i8[:,::1], i4[::1], i8, i8, i8, i8[::1], b1[::1])")
def read_lane(lanes: Any, slots: Any, lane: Any, null_lane: Any, bit: Any, out: Any, valid: Any) -> Any:
    """One lane of stored tuples, and which are not NULL; returns how many are NULL."""
    nulls = 0
    for j in range(slots.size):
        s = slots[j]
        out[j] = lanes[s, lane]
        valid[j] = null_lane < 0 or ((lanes[s, null_lane] >> bit) & 1) == 0
        nulls += not valid[j]
    return nulls


def read_column(lanes: Int64s, slots: Slots, type_: Type, at: tuple[int, int, int], pool: StringPool) -> Column:
    """One column of stored tuples."""
    first, null_lane, bit = at
    data, valid = np.empty(len(slots), np.int64), np.empty(len(slots), np.bool_)
    known = None if not read_lane(lanes, slots, first, null_lane, bit, data, valid) else valid
    if type_.is_fraction:
        return Column(type_, data.view(np.float64), known)
    hi = lanes[slots, first + 1] if type_.lanes == 2 else None
    return Column(type_, data, known, hi, pool if type_.pooled else None)


class Generalized:
    """The keys of a generalized node as its tuples: one column an attribute, NULL only where a key may be NULL."""

    weights: Growable | None = None
    counted = False
    heaviest = 1

    def __init__(self, dictionary: Dictionary, fields: Sequence[Field], pool: StringPool) -> None:
        self.tuples, self.fields, self.pool = dictionary.tuples, tuple(fields), pool
        self.first_lanes = layout([f.type for f in fields])
        lanes = sum(f.type.lanes for f in fields)
        self.null_lane = lanes if dictionary.width > lanes else -1

    @property
    def capacity(self) -> int:
        return len(self.tuples.occupancy.data)

    def lane(self, column: int) -> tuple[int, int, int]:
        return self.first_lanes[column], self.null_lane, column

    def reader(self, slots: Slots) -> Callable[[Reference], Column]:
        lanes = self.tuples.lanes.data
        return lambda c: read_column(lanes, slots, c.type, self.lane(c.column), self.pool)


@dataclass(slots=True)
class KeyColumn:
    """The key id of each tuple of a source, for one key."""

    source: Source
    dictionary: Dictionary
    expressions: tuple[Expression, ...]
    null_safe: tuple[bool, ...]
    condition: tuple[Expression, ...]
    ids: Growable
    pool: StringPool
    users: list[int] = field(default_factory=list)  # nodes whose tuples need it
    parts: Int64s | None = None

    def __post_init__(self) -> None:
        if not self.condition and all(isinstance(e, ColumnRef) for e in self.expressions):
            parts = np.zeros((len(self.expressions), PART_COLUMNS), np.int64)
            for i, e in enumerate(self.expressions):
                assert isinstance(e, ColumnRef)
                first, null_lane, bit = self.source.lane(e.column)
                parts[i] = first, e.type.lanes, null_lane if e.nullable else -1, bit, self.null_safe[i]
            self.parts = parts

    def assign(self, slots: Slots) -> Slots:
        """Assigns ids to tuples; returns the ids of new keys."""
        if self.parts is not None:
            return self.dictionary.assign(self.source.tuples.lanes.data, slots, self.parts, self.ids.data)
        read = self.source.reader(slots)
        holds = evaluate_filter(self.condition, read, len(slots)) if self.condition else np.ones(len(slots), np.bool_)
        kept = slots[holds]
        read = self.source.reader(kept)
        columns = [evaluate(e, read, len(kept)) for e in self.expressions]
        has_key, nulls = np.ones(len(kept), np.bool_), np.zeros(len(kept), np.int64)
        for i, (column, safe) in enumerate(zip(columns, self.null_safe, strict=True)):
            if column.valid is not None and safe:
                nulls |= (~column.valid).astype(np.int64) << i
            elif column.valid is not None:
                has_key &= column.valid
        rows = np.zeros((len(kept), self.dictionary.width), np.int64)
        values = sum(e.type.lanes for e in self.expressions)
        rows[:, :values] = pack(columns, self.pool, len(kept))[:, :values]
        if self.dictionary.width > values:
            rows[:, values] = nulls
        self.ids.data[slots[~holds]] = -1
        return self.dictionary.add(rows, has_key, kept, self.ids.data)


@dataclass(slots=True)
class EdgeKeys:
    """Both ends of an edge; a generalized parent needs no ids, its tuples are the keys."""

    dictionary: Dictionary
    child: KeyColumn
    parent: KeyColumn | None

    @property
    def columns(self) -> tuple[KeyColumn, ...]:
        return (self.child,) if self.parent is None else (self.child, self.parent)


def bind_keys(
    scope: Scope, plan: QueryPlan, sources: list[Source], pool: StringPool
) -> tuple[list[Source], list[EdgeKeys | None]]:
    """Creates the dictionaries and key columns of a tree; fills in the generalized nodes in `sources`."""
    groups = _Groups()
    ends: list[tuple[_End, _End] | None] = []
    for node in plan.nodes:
        if node.edge is None:
            ends.append(None)
            continue
        parent = plan.nodes[node.parent]
        child_end = _end(node.relation, sources, node.edge.child_key, node.edge, ())
        parent_end: _End = ("key of node", node.parent)
        if not parent.generalized:
            parent_end = _end(parent.relation, sources, node.edge.parent_key, node.edge, node.edge.condition)
        groups.join(child_end, parent_end)
        ends.append((child_end, parent_end))

    dictionaries: dict[_End, Dictionary] = {}
    for i, node in enumerate(plan.nodes):
        both = ends[i]
        if both is not None and node.edge is not None:
            root = groups.find(both[0])
            if root not in dictionaries:
                lanes = sum(e.type.lanes for e in node.edge.child_key) + any(node.edge.null_safe)
                dictionaries[root] = Dictionary(scope.scope(f"keys{len(dictionaries)}"), lanes)
    filled = list(sources)
    for i, node in enumerate(plan.nodes):
        if node.generalized:
            dictionary = dictionaries[groups.find(("key of node", i))]
            filled.append(Generalized(dictionary, plan.relations[node.relation].fields, pool))

    columns: dict[_End, KeyColumn] = {}

    def column(
        end: _End, relation: int, key: tuple[Expression, ...], edge: Edge, condition: tuple[Expression, ...], user: int
    ) -> KeyColumn:
        if end not in columns:
            source, dictionary = filled[relation], dictionaries[groups.find(end)]
            ids = scope.array(f"ids{len(columns)}", np.int32)
            key, condition = _normal(key), _normal(condition)
            columns[end] = KeyColumn(source, dictionary, key, edge.null_safe, condition, ids, pool)
        if user not in columns[end].users:
            columns[end].users.append(user)
        return columns[end]

    edges: list[EdgeKeys | None] = []
    for i, node in enumerate(plan.nodes):
        both = ends[i]
        if both is None or node.edge is None:
            edges.append(None)
            continue
        parent = plan.nodes[node.parent]
        child = column(both[0], node.relation, node.edge.child_key, node.edge, (), i)
        upper = None
        if not parent.generalized:
            upper = column(both[1], parent.relation, node.edge.parent_key, node.edge, node.edge.condition, node.parent)
        edges.append(EdgeKeys(dictionaries[groups.find(both[0])], child, upper))
    return filled, edges


_End = tuple[object, ...]


def _end(
    relation: int, sources: list[Source], key: tuple[Expression, ...], edge: Edge, condition: tuple[Expression, ...]
) -> _End:
    """Identifies an end of an edge: its source and the key read from it."""
    source: object = id(sources[relation]) if relation < len(sources) else ("generalized", relation)
    return source, _normal(key), edge.null_safe, _normal(condition)


def _normal(expressions: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The expressions in terms of the source, independent of the role."""
    return tuple(
        transform(e, lambda x: replace(x, relation=0, name="") if isinstance(x, ColumnRef) else x) for e in expressions
    )


class _Groups:
    """Disjoint sets."""

    def __init__(self) -> None:
        self._above: dict[_End, _End] = {}

    def find(self, end: _End) -> _End:
        while (above := self._above.setdefault(end, end)) != end:
            end = above
        return end

    def join(self, a: _End, b: _End) -> None:
        self._above[self.find(a)] = self.find(b)
