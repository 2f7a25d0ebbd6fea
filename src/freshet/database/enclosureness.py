"""Enclosureness: how hard an update sequence is, in general and for one join tree.

A tuple lives from its insert to its delete; both ends are moments of the sequence, or before its first or after its
last change. λ of a tuple is the largest number of disjoint lifespans inside its own, including its own, and λ of the
sequence is the average (AJU, section 1). Insert-only and first-in-first-out sequences have λ = 1.

For a join tree (CROWN, definitions 6.3 and 6.4) only lifespans of tuples in nodes below count, and they are
*effective* ones: they end at the first deletion below that node, or start at the last insertion below it. λ_T of a
tuple is the largest number of disjoint effective lifespans inside its own. As in definition 6.4 and in the proof of
theorem 6.6, lifespans are counted, each of which stands for counters that changed: so a tuple with two disjoint
effective lifespans counts twice. Filters are ignored: every row of a table is a tuple of its nodes.

A plan has a join tree for each of its selects. Rows that a nested query or a bag adds to its reader and removes again
are tuples there too; `fed_rows` executes the sequence to find them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.fed_rows import NestedRows, fed_rows
from freshet.database.lifespans import NONE, Lifespans, Packing, joined, lifespans
from freshet.errors import ChangeError, PlanError
from freshet.logical.query import TableSchema
from freshet.plans import Plan, QueryPlan
from freshet.plans.model import AnyPlan, inputs, schemas


@dataclass(frozen=True, slots=True)
class TreeEnclosureness:
    """How hard an update sequence is for one join tree.

    Attributes
    ----------
    sequence
        λ of all inputs of the tree: rows of tables, and rows that nested queries change.
    tree
        λ_T.
    """

    sequence: float
    tree: float


@dataclass(frozen=True, slots=True)
class Enclosureness:
    """How hard an update sequence is.

    Attributes
    ----------
    sequence
        λ of the sequence.
    tree
        λ_T of the plan's join tree, if a plan was given; the largest if there are several.
    tuples
        The number of lifespans.
    changes
        Rows changed.
    trees
        The same for each join tree of the plan, in the order in which `explain` shows them.

    Examples
    --------
    >>> import freshet
    >>> freshet.enclosure([{"t": [{"a": 1}]}, {"t": [{"a": 2}]}]).tuples
    2
    """

    sequence: float
    tree: float | None
    tuples: int
    changes: int
    trees: tuple[TreeEnclosureness, ...] = ()

    def __float__(self) -> float:
        return self.sequence


def enclosure(stream: Any, plan: Plan | None = None) -> Enclosureness:
    """Measure how hard an update sequence is: λ, and λ_T for a plan's join tree.

    Parameters
    ----------
    stream
        Transactions in order, each a dict of table to rows as `Database.apply` takes them (removals come first within
        one); or one table of changes, in the order of its rows.
    plan
        The plan for whose join tree λ_T is computed.

    Returns
    -------
    Enclosureness
        λ, λ_T if a plan is given, and the number of tuples and changes.

    Raises
    ------
    ChangeError
        The sequence has no changes, or changes that cannot be read.

    Examples
    --------
    >>> import freshet
    >>> freshet.enclosure([{"t": [{"a": 1}]}, {"t": [{"a": 2}]}]).sequence
    1.0
    """
    fed = NestedRows() if plan is None else fed_rows(stream := _repeatable(stream), plan.root)
    spans, changes = lifespans(stream, fed.pauses)
    last = changes + sum(fed.pauses) + 1
    every = joined(list(spans.values()))
    if not len(every):
        raise ChangeError("the sequence has no changes; give at least one")
    whole = Packing(every, last).inside(every)
    trees = () if plan is None else _trees(plan.root, spans, fed, last)
    tree = max((t.tree for t in trees), default=None)
    return Enclosureness(float(whole.mean()), tree, len(every), changes, trees)


def _repeatable(stream: Any) -> Any:
    return stream if isinstance(stream, (Mapping, pa.Table, pa.RecordBatch)) else list(stream)


# Trees ------------------------------------------------------------------------------------------------------------


def _trees(root: AnyPlan, spans: Mapping[str, Lifespans], fed: NestedRows, last: int) -> tuple[TreeEnclosureness, ...]:
    read = sorted({s.name.lower() for s in schemas(root)})
    if not read:
        return ()  # constant
    if "" in spans:
        raise PlanError(
            "the sequence does not say which table each change is of; give dicts of table name to rows, or a file with "
            "a column _table"
        )
    if not any(len(spans.get(name, NONE)) for name in read):
        listed = ", ".join(read)
        raise PlanError(
            f"no change is of a table of the query; it reads {listed}, the changes are of {', '.join(spans)}"
        )

    def walk(plan: AnyPlan, path: tuple[int, ...]) -> Iterator[TreeEnclosureness]:
        if isinstance(plan, QueryPlan) and plan.nodes:
            yield _tree(plan, [_tuples(plan, i, spans, fed, path) for i in range(len(plan.nodes))], last)
        for i, (_, below) in enumerate(inputs(plan)):
            yield from walk(below, (*path, i))

    return tuple(walk(root, ()))


def _tree(plan: QueryPlan, own: list[Lifespans], last: int) -> TreeEnclosureness:
    below: dict[int, list[int]] = {i: [] for i in range(len(plan.nodes))}
    for i in range(len(plan.nodes)):
        above = plan.nodes[i].parent
        while above >= 0:
            below[above].append(i)
            above = plan.nodes[above].parent
    effective = {i: _effective(own[i], joined([own[j] for j in below[i]]), last) for i in below}
    inside = count = 0
    for i, nodes in below.items():
        count += len(own[i])
        if nodes and len(own[i]):
            inner = joined([lifespan for j in nodes for lifespan in effective[j]])
            inside += int(Packing(inner, last).inside(own[i]).sum())
    every = joined(own)
    sequence = float(Packing(every, last).inside(every).mean()) if len(every) else 1.0
    return TreeEnclosureness(max(sequence, 1.0), max(inside / max(count, 1), 1.0))


def _tuples(
    plan: QueryPlan, i: int, spans: Mapping[str, Lifespans], fed: NestedRows, path: tuple[int, ...]
) -> Lifespans:
    node = plan.nodes[i]
    if node.generalized:
        return NONE
    source = plan.relations[node.relation].source
    if isinstance(source, TableSchema):
        return spans.get(source.name.lower(), NONE)
    return fed.spans.get((path, node.relation), NONE)


def _effective(spans: Lifespans, below: Lifespans, last: int) -> tuple[Lifespans, Lifespans]:
    """The effective lifespans of each tuple: one ends at the first deletion below, the other starts at the last
    insertion."""
    if not len(below):
        return spans, spans
    deletions, insertions = np.sort(below.end), np.sort(below.begin)
    next_deletion = np.r_[deletions, last][np.searchsorted(deletions, spans.begin, "right")]
    before = np.searchsorted(insertions, spans.end, "left")
    last_insertion = np.where(before > 0, insertions[np.maximum(before, 1) - 1], 0)
    cut = Lifespans(spans.begin, np.minimum(spans.end, next_deletion))
    return cut, Lifespans(np.maximum(spans.begin, last_insertion), spans.end)
