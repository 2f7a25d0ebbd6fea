"""Window functions: what OVER (PARTITION BY ... ORDER BY ...) asks for, and the queries that answer it.

Law: a window function is computed after WHERE, GROUP BY and HAVING, before QUALIFY, DISTINCT and ORDER BY. So a
select with window functions is three queries: one that computes everything they read, one `Windowed` for each kind of
window above it, and one that computes the outputs from both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from freshet import types
from freshet.aggregates import AGGREGATES
from freshet.errors import SqlError
from freshet.sql import functions
from freshet.sql.bound import AnyQuery, Field, Frame, SortKey, WindowCall, Windowed
from freshet.sql.expression import Call, ColumnRef, Expression, Literal, describe, transform, walk
from freshet.sql.functions.coercion import common_type
from freshet.sql.limit import Ordering
from freshet.sql.source import Statement
from freshet.types import Type

if TYPE_CHECKING:
    from freshet.sql.scalar import ScalarBinder

#: The relation number by which expressions read window functions while a select is bound.
WINDOW = -2

_RANKS: dict[type[exp.Expr], tuple[str, Type]] = {
    exp.RowNumber: ("row_number", types.INT),
    exp.Rank: ("rank", types.INT),
    exp.DenseRank: ("dense_rank", types.INT),
    exp.PercentRank: ("percent_rank", types.DOUBLE),
    exp.CumeDist: ("cume_dist", types.DOUBLE),
    exp.Ntile: ("ntile", types.INT),
}
_NEIGHBOURS: dict[type[exp.Expr], str] = {exp.Lag: "lag", exp.Lead: "lead"}
_VALUES: dict[type[exp.Expr], str] = {
    exp.FirstValue: "first_value", exp.First: "first_value", exp.LastValue: "last_value", exp.Last: "last_value",
    exp.NthValue: "nth_value",
}  # fmt: skip
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
}  # fmt: skip
_KNOWN = "ROW_NUMBER, RANK, DENSE_RANK, NTILE, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN and MAX are"
_WHOLE, _SO_FAR = Frame("range", None, None), Frame("range", None, 0)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A window function over expressions; where those stand in the query below is known when all are bound."""

    function: str
    args: tuple[Expression, ...]
    type: Type
    nullable: bool
    frame: Frame
    constant: int
    partition: tuple[Expression, ...]
    order: tuple[Ordering, ...]


class Windows:
    """The window functions of one select while its outputs are bound. `above` turns an expression over the relations
    into one over the group's row, where there is a grouping."""

    def __init__(
        self, statement: Statement, select: exp.Select, above: Callable[[Expression, exp.Expr], Expression]
    ) -> None:
        self.statement, self.above = statement, above
        self.named: dict[str, exp.Expr] = {}
        for window in select.args.get("windows") or ():
            if self.named.setdefault(window.this.name.lower(), window) is not window:
                statement.fail(f"two windows are called {window.this.name}; name them apart", window)
        self.calls: list[_Bound] = []

    def bind(self, node: exp.Expr, scalar: ScalarBinder) -> Expression:
        """The value of a window function, read from relation WINDOW; equal ones are computed once."""
        if not isinstance(node, exp.Window):
            self.statement.refuse(node.sql(dialect="spark"), "leave out IGNORE NULLS and WITHIN GROUP", node)
        bound = self._bind(node, scalar)
        if bound not in self.calls:
            self.calls.append(bound)
        return ColumnRef(bound.type, WINDOW, self.calls.index(bound), node.sql(dialect="spark"), bound.nullable)

    def _bind(self, node: exp.Window, scalar: ScalarBinder) -> _Bound:
        self.statement.only(node, ("this", "partition_by", "order", "spec", "over", "alias"))
        partition, order, spec = self._spec(node, scalar)
        call, read = node.this, self._reader(scalar)
        function, args, kind, nullable, constant = self._function(call, read, node)
        needs_order = type(call) in _RANKS or type(call) in _NEIGHBOURS
        if needs_order and not order:
            self.statement.fail(f"{function.upper()} depends on an order; add ORDER BY to its OVER (...)", node)
        if needs_order and spec is not None:
            self.statement.fail(f"{function.upper()} takes no frame; leave out {spec.sql(dialect='spark')}", node)
        frame = _WHOLE if needs_order else self._frame(spec, bool(order), node)
        return _Bound(function, args, kind, nullable, frame, constant, partition, order)

    def _reader(self, scalar: ScalarBinder) -> Callable[[exp.Expr], Expression]:
        inside = scalar.within("a window function")
        return lambda part: self.above(inside.bind(part), part)

    def _spec(
        self, node: exp.Window, scalar: ScalarBinder
    ) -> tuple[tuple[Expression, ...], tuple[Ordering, ...], exp.Expr | None]:
        """PARTITION BY, ORDER BY and the frame, some of which a named window may give."""
        parts: list[exp.Expr] = [node]
        while parts[0].args.get("alias") is not None:
            name = parts[0].args["alias"].name
            if name.lower() not in self.named or self.named[name.lower()] in parts:
                self.statement.fail(f"no window {name}; define it by WINDOW {name} AS (...) after HAVING", node)
            parts.insert(0, self.named[name.lower()])
        read = self._reader(scalar)
        partition = [read(e) for part in parts for e in part.args.get("partition_by") or ()]
        items = [item for part in parts if part.args.get("order") for item in part.args["order"].expressions]
        for item in items:
            self.statement.only(item, ("this", "desc", "nulls_first"))
        specs = [part.args["spec"] for part in parts if part.args.get("spec")]
        ordered = tuple(Ordering(read(item.this), item) for item in items)
        constant = tuple(o for o in ordered if not isinstance(o.expression, Literal))
        return tuple(dict.fromkeys(partition)), constant or ordered, specs[-1] if specs else None

    def _function(
        self, call: exp.Expr, read: Callable[[exp.Expr], Expression], node: exp.Expr
    ) -> tuple[str, tuple[Expression, ...], Type, bool, int]:
        """Its name, arguments, type, whether it may be NULL, and its constant."""
        if type(call) in _RANKS:
            self.statement.only(call, ("this",))
            name, kind = _RANKS[type(call)]
            return name, (), kind, False, self._whole(call.this, 1, name) if name == "ntile" else 0
        if type(call) in _NEIGHBOURS:
            self.statement.only(call, ("this", "offset", "default"))
            value, default = read(call.this), call.args.get("default")
            instead = None if default is None else read(default)
            if instead is not None and (value.type.name == "VOID" or value.type.name == instead.type.name == "DECIMAL"):
                value = self._cast(value, common_type((value.type, instead.type)) or value.type, node)
            default_args = () if instead is None else (self._cast(instead, value.type, node),)
            distance = (
                1 if call.args.get("offset") is None else self._whole(call.args["offset"], 0, _NEIGHBOURS[type(call)])
            )
            return _NEIGHBOURS[type(call)], (value, *default_args), value.type, True, distance
        if type(call) in _VALUES:
            self.statement.only(call, ("this", "offset"))
            value, name = read(call.this), _VALUES[type(call)]
            return (
                name,
                (value,),
                value.type,
                True,
                self._whole(call.args["offset"], 1, name) if name == "nth_value" else 0,
            )
        function = _AGGREGATES.get(type(call))
        if function is None:
            self.statement.refuse(f"{call.sql(dialect='spark')} as a window function", _KNOWN, node)
        self.statement.only(call, ("this", "expressions") if function == "count" else ("this",))
        if isinstance(call.this, exp.Distinct):
            self.statement.refuse("DISTINCT in a window function", "take the distinct rows in a FROM subquery", node)
        parts = [] if isinstance(call.this, exp.Star) else [call.this, *call.expressions]
        args = tuple(read(p) for p in parts)
        if function == "count":
            args = tuple(a for a in args if functions.nullable(a))
        try:
            kind = AGGREGATES[function].type([a.type for a in args])
        except SqlError as error:
            raise self.statement.placed(error, node) from None
        return function, args, kind, function != "count", 0

    def _cast(self, value: Expression, to: Type, node: exp.Expr) -> Expression:
        try:
            return value if value.type == to else functions.cast(value, to)
        except SqlError as error:
            raise self.statement.placed(error, node) from None

    def _whole(self, node: exp.Expr, least: int, function: str) -> int:
        if isinstance(node, exp.Literal) and node.is_int and int(node.name) >= least:
            return int(node.name)
        written = node.sql(dialect="spark")
        self.statement.fail(f"{function.upper()} takes a whole number from {least} on, not {written}; write one", node)

    def _frame(self, spec: exp.Expr | None, ordered: bool, node: exp.Expr) -> Frame:
        if spec is None:
            return _SO_FAR if ordered else _WHOLE
        self.statement.only(spec, ("kind", "start", "start_side", "end", "end_side"))
        unit = spec.text("kind").lower()
        start = self._edge(spec.args["start"], spec.args.get("start_side"), node)
        end = 0 if spec.args.get("end") is None else self._edge(spec.args["end"], spec.args.get("end_side"), node)
        if unit not in ("rows", "range") or (unit == "range" and {start, end} - {None, 0}):
            self.statement.refuse(spec.sql(dialect="spark"), "count rows: ROWS BETWEEN ...", node)
        if unit == "range" and not ordered:
            return _WHOLE
        return Frame(unit, start, end)

    def _edge(self, edge: object, side: object, node: exp.Expr) -> int | None:
        """The words of a frame stand in the parsed node as they were written."""
        word = edge.upper() if isinstance(edge, str) else ""
        if word == "UNBOUNDED":
            return None
        if word == "CURRENT ROW":
            return 0
        if not isinstance(edge, exp.Literal) or not edge.is_int:
            self.statement.refuse("a frame whose end is no whole number", "write a number of rows", node)
        return -int(edge.name) if str(side).upper() == "PRECEDING" else int(edge.name)

    # The queries --------------------------------------------------------------------------------------------------

    def reads(self) -> list[Expression]:
        """Everything that the window functions read."""
        return [e for c in self.calls for e in (*c.args, *c.partition, *(o.expression for o in c.order))]

    def divide(self, keys: Sequence[Expression]) -> None:
        """Makes the partitions of all windows those of each value of the keys."""
        self.calls = [replace(c, partition=tuple(dict.fromkeys((*c.partition, *keys)))) for c in self.calls]

    def split(self, wanted: Sequence[Expression]) -> tuple[list[Expression], list[Expression]]:
        """What the query below the windows computes, and the wanted expressions over its columns (relation 0) and the
        window functions (relation WINDOW)."""
        inner: list[Expression] = []

        def lifted(e: Expression) -> Expression:
            if isinstance(e, Literal) or (isinstance(e, ColumnRef) and e.relation == WINDOW):
                return e
            if isinstance(e, Call) and any(isinstance(p, ColumnRef) and p.relation == WINDOW for p in walk(e)):
                return replace(e, args=tuple(map(lifted, e.args)))
            return ColumnRef(e.type, 0, _place(inner, e), describe(e), functions.nullable(e))

        above = [lifted(e) for e in wanted]
        for e in self.reads():
            _place(inner, e)
        return inner or [Literal(types.INT, 1)], above

    def over(
        self, source: AnyQuery, inner: list[Expression], above: Sequence[Expression]
    ) -> tuple[AnyQuery, list[Expression]]:
        """The windows above a query that computes `inner`, and the expressions over that alone."""
        kinds: dict[tuple[tuple[int, ...], tuple[SortKey, ...]], list[int]] = {}
        for i, call in enumerate(self.calls):
            order = tuple(o.key(_place(inner, o.expression)) for o in call.order)
            kinds.setdefault((tuple(_place(inner, e) for e in call.partition), order), []).append(i)
        place: dict[int, int] = {}
        for (partition, order), members in kinds.items():
            fields, calls = list(source.fields), []
            for i in members:
                bound = self.calls[i]
                place[i] = len(fields)
                fields.append(Field(bound.function, bound.type, bound.nullable))
                args = tuple(_place(inner, e) for e in bound.args)
                calls.append(WindowCall(bound.function, args, bound.type, bound.frame, bound.constant))
            source = Windowed(source, partition, order, tuple(calls), tuple(fields))

        def settled(e: Expression) -> Expression:
            if isinstance(e, ColumnRef) and e.relation == WINDOW:
                return replace(e, relation=0, column=place[e.column])
            return e

        return source, [transform(e, settled) for e in above]


def _place(expressions: list[Expression], wanted: Expression) -> int:
    """Where an expression stands in a list, appended if it does not."""
    if wanted not in expressions:
        expressions.append(wanted)
    return expressions.index(wanted)
