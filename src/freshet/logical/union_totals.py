"""Aggregates over UNION ALL, and so over FULL JOIN, combined from aggregates of its inputs.

Each input is grouped by itself, by the same keys, and the groups of all inputs are grouped again: counts and sums add
up, least and greatest values are those of all (`totals`). This pays where an input is a join whose parts can then be
grouped below (`annotate`): its joined rows are not enumerated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freshet.aggregates import function_of
from freshet.logical.annotate import Annotations, annotated
from freshet.logical.query import AnyQuery, Block, Field, Grouping, Query, Relation, UnionAll, group_key, key
from freshet.logical.totals import Part, Totals, count_of, some
from freshet.scalar.expression import AggregateCall, ColumnRef, Expression, GroupRef, references, transform
from freshet.scalar.functions import nullable


def union_totals(query: Query, annotations: Annotations) -> Query | None:
    """The query over grouped inputs of its UNION ALL; None if it has another form, or that would save nothing."""
    grouping, source = query.grouping, query.relations[0].source if len(query.relations) == 1 else None
    if grouping is None or not isinstance(source, UnionAll) or query.block.arms:
        return None
    inputs = [i for i in source.inputs if isinstance(i, Query) and i.grouping is None and not i.distinct]
    if len(inputs) < len(source.inputs) or not any(len([*i.block.within()]) > 1 for i in inputs):
        return None
    totals = _UnionTotals(query, grouping)
    if totals.why:
        return None
    grouped = [totals.grouped(i) for i in inputs]
    if all(annotated(i, annotations)[0] is i for i in grouped):
        return None
    return totals.above(grouped)


class _UnionTotals(Totals[Part]):
    """The rows of all inputs as one part of a join that has no others."""

    def __init__(self, query: Query, grouping: Grouping) -> None:
        self.query, self.grouping, self.why = query, grouping, ""
        self.part = Part([0], len(grouping.keys))
        self.part.number = 0
        self.parts, self.inside = [self.part], {0: self.part}
        self.calls: list[AggregateCall] = []  # of the query above
        for call in grouping.aggregates:
            function = function_of(call)
            if call.distinct or not (function.of_itself if function.idempotent else function.carries(call)):
                self.why = f"{call.function.upper()} needs each row"
                return
        self.count = self.part.column(count_of([]))
        self.given = [self._given(c) for c in grouping.aggregates]

    def _moved(self, e: Expression) -> Expression:
        assert not references(e)  # all columns are in the part
        return e

    def _above(self, call: AggregateCall) -> Expression:
        if call not in self.calls:
            self.calls.append(call)
        place = len(self.grouping.keys) + self.calls.index(call)
        return GroupRef(call.type, place, f"a{place}", True)

    @property
    def fields(self) -> tuple[Field, ...]:
        keys, width = self.grouping.keys, self.part.width
        fields = [Field(f"k{i}", k.type, nullable(k)) for i, k in enumerate(keys)]
        calls = enumerate(self.part.calls)
        return (*fields, *(Field(f"a{width + i}", c.type, not function_of(c).counts) for i, c in calls))

    def grouped(self, source: Query) -> Query:
        """The groups of one input."""

        def read(e: Expression) -> Expression:
            return transform(e, lambda x: source.outputs[x.column] if isinstance(x, ColumnRef) else x)

        conditions = tuple(map(read, (*self.query.block.predicates, *self.query.where)))
        having = None if self.grouping.keys else some(self.count)
        calls = tuple(c.mapped(read) for c in self.part.calls)
        block, where = source.block, source.where
        if block.arms:  # whose columns the conditions may read
            where = (*where, *conditions)
        else:
            block = replace(block, predicates=(*block.predicates, *conditions))
        return replace(
            source,
            block=block,
            where=where,
            grouping=Grouping(tuple(map(read, self.grouping.keys)), calls, having),
            outputs=tuple(group_key(i, f) for i, f in enumerate(self.fields)),
            fields=self.fields,
        )

    def above(self, grouped: Sequence[AnyQuery]) -> Query:
        """The query over the groups of all inputs."""
        fields, keys = self.fields, len(self.grouping.keys)
        source = UnionAll(tuple(grouped), fields)
        relation = Relation(f"totals of {self.query.relations[0].alias}", source, fields)
        having = None if self.grouping.having is None else self._over_groups(self.grouping.having)
        return Query(
            (relation,),
            Block((0,), ()),
            (),
            Grouping(tuple(key(0, i, fields[i]) for i in range(keys)), tuple(self.calls), having),
            tuple(map(self._over_groups, self.query.outputs)),
            self.query.fields,
            self.query.distinct,
        )

    def _over_groups(self, e: Expression) -> Expression:
        """An expression over groups, with aggregates replaced by what they are combined from."""
        keys = len(self.grouping.keys)

        def replaced(x: Expression) -> Expression:
            return self.given[x.column - keys] if isinstance(x, GroupRef) and x.column >= keys else x

        return transform(e, replaced)
