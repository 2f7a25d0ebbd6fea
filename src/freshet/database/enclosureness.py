"""Enclosureness: how hard an update sequence is, and how hard for one join tree.

A tuple lives from the change that brings it to the one that takes it away; both ends are moments of the sequence, or
before its first or after its last change. λ of a tuple is the largest number of disjoint lifespans inside its own, its
own among them, and λ of the sequence is the average (AJU, section 1). Inserts alone and first in, first out have λ = 1.

For a join tree (CROWN, definitions 6.3 and 6.4) only lifespans of tuples in nodes below count, and they are
*effective* ones: cut off at the first deletion below that node, or begun at the last insertion below it. λ_T of a tuple
is the largest number of disjoint effective lifespans inside its own. What is counted are lifespans, in the words of
definition 6.4 and in the proof of theorem 6.6, where each stands for counters that changed: so a tuple whose two
effective lifespans are disjoint counts with both. Filters are not looked at: every row of a table is a tuple of its
nodes.

The largest number of disjoint intervals inside a given one is found greedily, always the one that ends first;
`_Packing` follows those steps for all intervals at once, in powers of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.change_type import CHANGE_TYPE, WEIGHT, ChangeType, read_change_types, whole_weights
from freshet.errors import ChangeError, PlanError
from freshet.logical.query import TableSchema
from freshet.plans import Plan, QueryPlan
from freshet.plans.model import SortPlan
from freshet.state.arrays import Int64s


@dataclass(frozen=True, slots=True)
class Enclosureness:
    """How hard an update sequence is.

    Attributes
    ----------
    sequence
        λ of the sequence.
    tree
        λ_T of the plan's join tree, if a plan was given.
    tuples
        How many lifespans there are.
    changes
        Rows changed.
    """

    sequence: float
    tree: float | None
    tuples: int
    changes: int

    def __float__(self) -> float:
        return self.sequence


@dataclass(frozen=True, slots=True)
class Lifespans:
    """Closed intervals of moments: 0 is before all changes, `last` after all of them."""

    begin: Int64s
    end: Int64s

    def __len__(self) -> int:
        return len(self.begin)


def enclosure(stream: Any, plan: Plan | None = None) -> Enclosureness:
    """Measure how hard an update sequence is: λ, and λ_T for a plan's join tree.

    Parameters
    ----------
    stream
        Transactions in order, each a dict of table to rows as `Database.apply` takes them (removals come first
        within one); or one table of changes, whose order is its rows'.
    plan
        The plan whose join tree λ_T is for.

    Returns
    -------
    Enclosureness
        λ, λ_T if a plan is given, and how many tuples and changes there are.

    Raises
    ------
    ChangeError
        The sequence has no changes, or some that cannot be read.

    Examples
    --------
    >>> import freshet
    >>> freshet.enclosure([{"t": [{"a": 1}]}, {"t": [{"a": 2}]}]).sequence
    1.0
    """
    spans, changes = lifespans(stream)
    last = changes + 1
    every = _joined(list(spans.values()))
    if not len(every):
        raise ChangeError("the sequence has no changes; give at least one")
    whole = _Packing(every, last).inside(every)
    tree = None if plan is None else _tree(plan, spans, last)
    return Enclosureness(float(whole.mean()), tree, len(every), changes)


# Lifespans --------------------------------------------------------------------------------------------------------


def lifespans(stream: Any) -> tuple[dict[str, Lifespans], int]:
    """The lifespans of each table's tuples, and the number of changes. A row that occurs several times lives from its
    first copy to its last; one that is removed before it came was there from the start."""
    if isinstance(stream, (pa.Table, pa.RecordBatch)):
        whole = pa.Table.from_batches([stream]) if isinstance(stream, pa.RecordBatch) else stream
        return _of_table(whole)
    rows: dict[str, list[pa.Table]] = {}
    moments: dict[str, list[Int64s]] = {}
    signs: dict[str, list[Int64s]] = {}
    now = 0
    for transaction in [stream] if isinstance(stream, Mapping) else stream:
        if not isinstance(transaction, Mapping):
            raise ChangeError(f"a transaction is a {type(transaction).__name__}; give dicts of table name to rows")
        parts = {str(name).lower(): _changes(given, str(name)) for name, given in transaction.items()}
        for sign in (-1, 1):  # as the engine does: all that goes goes first
            for name, (table, weights) in parts.items():
                chosen = np.flatnonzero(np.sign(weights) == sign)
                rows.setdefault(name, []).append(table.take(chosen))
                moments.setdefault(name, []).append(now + 1 + np.arange(len(chosen), dtype=np.int64))
                signs.setdefault(name, []).append(weights[chosen])
                now += len(chosen)
    spans = {
        name: _spans(
            identity(pa.concat_tables(rows[name])), np.concatenate(moments[name]), np.concatenate(signs[name]), now
        )
        for name in rows
    }
    return spans, now


def _of_table(table: pa.Table) -> tuple[dict[str, Lifespans], int]:
    rows, weights = _changes(table, "")
    moments = 1 + np.arange(rows.num_rows, dtype=np.int64)
    return {"": _spans(identity(rows), moments, weights, rows.num_rows)}, rows.num_rows


def _changes(given: Any, name: str) -> tuple[pa.Table, Int64s]:
    """Rows without what says how they change, and their weights."""
    table = as_arrow(given)
    weights = np.ones(table.num_rows, np.int64)
    if WEIGHT in table.column_names and CHANGE_TYPE in table.column_names:
        raise ChangeError(f"rows carry both {WEIGHT} and {CHANGE_TYPE}; keep one", name or None)
    if WEIGHT in table.column_names:
        weights = whole_weights(table.column(WEIGHT).combine_chunks(), name or None)
    elif CHANGE_TYPE in table.column_names:
        whole = [kind for kind in ChangeType if kind.says_what_goes]
        weights = read_change_types(table.column(CHANGE_TYPE).combine_chunks(), name or None, among=whole).signs
    return table.drop_columns([c for c in (WEIGHT, CHANGE_TYPE) if c in table.column_names]), weights


def as_arrow(given: Any) -> pa.Table:
    """Rows in any of the forms `apply` takes."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    return pa.table(given) if hasattr(given, "__arrow_c_stream__") else pa.Table.from_pylist(list(given))


def identity(rows: pa.Table) -> Int64s:
    """A number for each row, equal where all values are."""
    found = np.zeros(rows.num_rows, np.int64)
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            codes = column.combine_chunks().dictionary_encode(null_encoding="encode")
        except pa.ArrowNotImplementedError:
            raise ChangeError(
                f"column {name} is {column.type}, which rows are not told apart by; leave it out"
            ) from None
        indices = codes.indices if isinstance(codes, pa.DictionaryArray) else codes.combine_chunks().indices
        _, found = np.unique(found * (len(rows) + 1) + indices.to_numpy(), return_inverse=True)
    return found.astype(np.int64)


def _spans(rows: Int64s, moments: Int64s, weights: Int64s, changes: int) -> Lifespans:
    """Where the number of copies of each row is above zero."""
    order = np.lexsort((moments, rows))
    rows, moments, weights = rows[order], moments[order], weights[order]
    if not len(rows):
        return Lifespans(rows, rows)
    first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    group = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(rows)]))
    total = np.cumsum(weights)
    held = total - (total[first] - weights[first])[group]
    initially = np.maximum(0, -np.minimum.reduceat(held, first))  # what must have been there from the start
    held += initially[group]
    before = held - weights
    last = np.r_[first[1:], len(rows)] - 1
    begins = (before <= 0) & (held > 0)
    ends = (before > 0) & (held <= 0)
    begin_row = np.r_[np.flatnonzero(initially > 0), group[begins]]
    begin = np.r_[np.zeros(int((initially > 0).sum()), np.int64), moments[begins]]
    end_row = np.r_[group[ends], np.flatnonzero(held[last] > 0)]
    end = np.r_[moments[ends], np.full(int((held[last] > 0).sum()), changes + 1)]
    by_begin, by_end = np.lexsort((begin, begin_row)), np.lexsort((end, end_row))
    return Lifespans(begin[by_begin], end[by_end])


def _joined(parts: list[Lifespans]) -> Lifespans:
    if not parts:
        none = np.empty(0, np.int64)
        return Lifespans(none, none)
    return Lifespans(np.concatenate([p.begin for p in parts]), np.concatenate([p.end for p in parts]))


# Packing ----------------------------------------------------------------------------------------------------------


class _Packing:
    """`steps[k][p]`: the moment after 2^k disjoint intervals, taken greedily from moment p on."""

    def __init__(self, spans: Lifespans, last: int) -> None:
        self.never = last + 2
        first_end = np.full(self.never + 1, self.never, np.int64)
        np.minimum.at(first_end, spans.begin, spans.end)
        step = np.minimum(np.minimum.accumulate(first_end[::-1])[::-1] + 1, self.never)
        step[self.never] = self.never
        self.steps = [step]
        while len(self.steps) < max(1, len(spans)).bit_length():
            self.steps.append(self.steps[-1][self.steps[-1]])

    def inside(self, spans: Lifespans) -> Int64s:
        """The largest number of disjoint intervals inside each of the given ones."""
        at, count = spans.begin.copy(), np.zeros(len(spans), np.int64)
        for k in reversed(range(len(self.steps))):
            further = self.steps[k][at]
            fits = (further < self.never) & (further - 1 <= spans.end)
            at[fits] = further[fits]
            count[fits] += 1 << k
        return count


# Trees ------------------------------------------------------------------------------------------------------------


def _tree(plan: Plan, spans: Mapping[str, Lifespans], last: int) -> float:
    root = plan.root.source if isinstance(plan.root, SortPlan) else plan.root
    if not isinstance(root, QueryPlan):
        raise PlanError("λ of a tree needs the plan of a select; this one is of another operator")
    below: dict[int, list[int]] = {i: [] for i in range(len(root.nodes))}
    for i in range(len(root.nodes)):
        above = root.nodes[i].parent
        while above >= 0:
            below[above].append(i)
            above = root.nodes[above].parent
    own = {i: _tuples(root, i, spans) for i in below}
    effective = {i: _effective(own[i], _joined([own[j] for j in below[i]]), last) for i in below}
    inside = count = 0
    for i, nodes in below.items():
        count += len(own[i])
        if nodes and len(own[i]):
            inner = _joined([lifespan for j in nodes for lifespan in effective[j]])
            inside += int(_Packing(inner, last).inside(own[i]).sum())
    if not count:
        read = ", ".join(sorted({r.source.name for r in root.relations if isinstance(r.source, TableSchema)}))
        raise PlanError(f"no change is of a table of the query; it reads {read}, the changes are of {', '.join(spans)}")
    return max(inside / count, 1.0)


def _tuples(plan: QueryPlan, i: int, spans: Mapping[str, Lifespans]) -> Lifespans:
    node = plan.nodes[i]
    none = np.empty(0, np.int64)
    if node.generalized:
        return Lifespans(none, none)
    source = plan.relations[node.relation].source
    if not isinstance(source, TableSchema):
        raise PlanError(f"{plan.relations[node.relation].alias} is a nested query, whose changes the sequence lacks")
    if "" in spans:
        raise PlanError(
            "the sequence does not say which table each change is of; give dicts of table name to rows, or a file with "
            "a column _table"
        )
    return spans.get(source.name.lower(), Lifespans(none, none))


def _effective(spans: Lifespans, below: Lifespans, last: int) -> tuple[Lifespans, Lifespans]:
    """The effective lifespans of each tuple: cut off at the first deletion below, begun at the last insertion."""
    if not len(below):
        return spans, spans
    deletions, insertions = np.sort(below.end), np.sort(below.begin)
    next_deletion = np.r_[deletions, last][np.searchsorted(deletions, spans.begin, "right")]
    before = np.searchsorted(insertions, spans.end, "left")
    last_insertion = np.where(before > 0, insertions[np.maximum(before, 1) - 1], 0)
    cut = Lifespans(spans.begin, np.minimum(spans.end, next_deletion))
    return cut, Lifespans(np.maximum(spans.begin, last_insertion), spans.end)
