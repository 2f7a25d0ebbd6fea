"""State of an edge with a comparison: the values of both ends and sorted chains over them (state/comparison)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freshet.engine.sources import Source
from freshet.plans.model import Comparison
from freshet.scalar.column import Column
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.evaluate import evaluate
from freshet.state.arena import Growable, Scope
from freshet.state.arrays import Int64s
from freshet.state.comparison import ENDS_COLUMNS
from freshet.state.tree_table import AT_MOST, LESS, UNEQUAL
from freshet.state.tuples import Slots

#: The kernels' code for each comparison, and whether both values are complemented, which reverses their order.
COMPARISONS = {
    ComparisonOperator.LESS: (LESS, False),
    ComparisonOperator.AT_MOST: (AT_MOST, False),
    ComparisonOperator.GREATER: (LESS, True),
    ComparisonOperator.AT_LEAST: (AT_MOST, True),
    ComparisonOperator.UNEQUAL: (UNEQUAL, False),
}


@dataclass(slots=True)
class FurtherValues:
    """State of the comparisons after the first (state/second_value, state/further_values): the values of both ends,
    such that greater is better on either side, and the greatest values below each tuple in the treaps of alive children
    and of live parents."""

    comparisons: tuple[Comparison, ...]
    child: Growable
    parent: Growable
    best_child: Growable
    best_parent: Growable

    @classmethod
    def make(cls, scope: Scope, child: int, comparisons: tuple[Comparison, ...]) -> FurtherValues:
        names = (f"seconds{child}", f"parentseconds{child}", f"best{child}", f"livebest{child}")
        columns = len(comparisons) if len(comparisons) > 1 else 0
        return cls(comparisons, *(scope.array(name, np.int64, columns=columns) for name in names))

    @property
    def strict(self) -> int:
        """Bits of the comparisons that equal values do not satisfy."""
        return sum((COMPARISONS[c.operator][0] == LESS) << d for d, c in enumerate(self.comparisons))

    def assign(self, below: bool, source: Source, slots: Slots) -> None:
        values = self.child if below else self.parent
        values.grow(source.capacity)
        rows = values.data.reshape(len(values.data), len(self.comparisons))
        for d, comparison in enumerate(self.comparisons):
            expression = comparison.child if below else comparison.parent
            found = _ordered(evaluate(expression, source.reader(slots), len(slots)))[:, 0]
            rows[slots, d] = found if below != COMPARISONS[comparison.operator][1] else ~found


@dataclass(slots=True)
class OrderedEdge:
    """State of an edge with a comparison, in addition to links: values of both ends, and sorted chains over them."""

    child: int
    parent: int
    comparison: Comparison
    child_values: Growable
    parent_values: Growable
    child_sides: Growable
    parent_sides: Growable
    live_links: Growable
    live_sides: Growable
    ends: Growable
    further: FurtherValues | None
    counts: Growable | None  # of each child: how many are in its subtree of the treap (state/counted_chain)

    @classmethod
    def make(cls, scope: Scope, child: int, parent: int, comparison: Comparison) -> OrderedEdge:
        def pair(name: str) -> Growable:
            return scope.array(f"{name}{child}", np.int32, columns=2)

        return cls(
            child,
            parent,
            comparison,
            child_values=scope.array(f"values{child}", np.int64, columns=2),
            parent_values=scope.array(f"parentvalues{child}", np.int64, columns=2),
            child_sides=pair("sides"),
            parent_sides=pair("parentsides"),
            live_links=pair("live"),
            live_sides=pair("livesides"),
            ends=scope.array(f"ends{child}", np.int32, columns=ENDS_COLUMNS),
            further=FurtherValues.make(scope, child, comparison.further) if comparison.further else None,
            counts=scope.array(f"counts{child}", np.int64) if comparison.counted else None,
        )

    def assign(self, node: int, source: Source, slots: Slots) -> None:
        """Computes the values of tuples added at this end of the edge, as integers in the same order."""
        end, expression = (
            (self.child_values, self.comparison.child)
            if node == self.child
            else (self.parent_values, self.comparison.parent)
        )
        end.grow(source.capacity)
        pairs = _ordered(evaluate(expression, source.reader(slots), len(slots)))
        end.data[slots] = ~pairs if COMPARISONS[self.comparison.operator][1] else pairs
        if self.further is not None:
            self.further.assign(node == self.child, source, slots)


def _ordered(column: Column) -> Int64s:
    """Values as pairs of integers in the same order."""
    pairs = np.zeros((len(column.data), 2), np.int64)
    if column.type.lanes > 1:
        pairs[:, 0] = column.data >> 63 if column.hi is None else column.hi
        pairs[:, 1] = column.data ^ np.int64(-(1 << 63))  # maps unsigned order to that of signed integers
    elif column.data.dtype == np.float64:
        bits = np.where(np.isnan(column.data), np.nan, column.data + 0.0).view(np.int64)
        pairs[:, 0] = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    else:
        pairs[:, 0] = column.data
    return pairs
