"""Window functions: OVER (PARTITION BY ... ORDER BY ...), and the queries that compute them.

Law: a window function is computed after WHERE, GROUP BY and HAVING, before QUALIFY, DISTINCT and ORDER BY. So a
select with window functions is three queries: one that computes everything they read, one `Windowed` for each kind of
window above it, and one that computes the outputs from both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from freshet.logical.query import AnyQuery, Field, Windowed
from freshet.logical.references import WindowRef
from freshet.scalar import functions, types
from freshet.scalar.describe import describe
from freshet.scalar.expression import ColumnRef, Expression, Literal, SortKey, children, transform, walk, with_children
from freshet.sql.limit import Ordering
from freshet.sql.scalar import ScalarBinder
from freshet.sql.source import Statement, sql_of
from freshet.sql.window_frame import FrameBinder
from freshet.sql.window_function import FunctionBinder
from freshet.windows import WINDOW_FUNCTIONS, BoundFunction
from freshet.windows.call import WHOLE, Frame, WindowCall


@dataclass(frozen=True, slots=True)
class _Bound:
    """A window function over expressions; their positions in the query below are known once all are bound."""

    function: BoundFunction
    frame: Frame
    partition: tuple[Expression, ...]
    order: tuple[Ordering, ...]

    @property
    def reads(self) -> tuple[Expression, ...]:
        """All expressions that the query below computes for it."""
        only = () if self.function.filter is None else (self.function.filter,)
        return (*self.function.args, *only, *self.partition, *(o.expression for o in self.order))


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
                statement.fail(f"two windows are called {window.this.name}; rename one of them", window)
        self.calls: list[_Bound] = []

    def bind(self, node: exp.Expr, scalar: ScalarBinder) -> Expression:
        """The value of a window function, read as a `WindowRef`; equal ones are computed once."""
        if not isinstance(node, exp.Window):
            self.statement.refuse(sql_of(node), "leave out IGNORE NULLS and WITHIN GROUP", node)
        bound = self._bind(node, scalar)
        if any(isinstance(p, WindowRef) for e in bound.reads for p in walk(e)):
            what = "a window function that reads the alias of another one"
            self.statement.refuse(what, "compute the other in a FROM subquery", node)
        if bound not in self.calls:
            self.calls.append(bound)
        kind, nullable = bound.function.type, bound.function.nullable
        return WindowRef(kind, self.calls.index(bound), sql_of(node), nullable)

    def _bind(self, node: exp.Window, scalar: ScalarBinder) -> _Bound:
        self.statement.only(node, ("this", "partition_by", "order", "spec", "over", "alias"))
        partition, order, spec = self._spec(node, scalar)
        read, inside = self._reader(scalar), scalar.within("a window function")
        only = scalar.within("FILTER")
        only.aggregate = None
        function = FunctionBinder(
            self.statement,
            read,
            lambda part: self.above(inside.condition(part), part),
            lambda part: self.above(only.condition(part), part),
            node,
        ).bind(node.this)
        record, name = WINDOW_FUNCTIONS[function.name], function.name.upper()
        if record.ordered and not order:
            self.statement.fail(f"{name} depends on an order; add ORDER BY to its OVER (...)", node)
        frame = FrameBinder(self.statement, inside, [o.expression for o in order]).bind(spec, node)
        if not record.framed:
            if spec is not None and frame != record.own_frame:
                self.statement.fail(f"{name} takes no frame; leave out {sql_of(spec)}", node)
            frame = WHOLE
        varying = tuple(o for o in order if not isinstance(o.expression, Literal))
        return _Bound(function, frame, partition, varying or order)

    def _reader(self, scalar: ScalarBinder) -> Callable[[exp.Expr], Expression]:
        inside = scalar.within("a window function")
        return lambda part: self.above(inside.bind(part), part)

    def _spec(
        self, node: exp.Window, scalar: ScalarBinder
    ) -> tuple[tuple[Expression, ...], tuple[Ordering, ...], exp.Expr | None]:
        """PARTITION BY, ORDER BY and the frame, some of which may come from a named window."""
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
        return tuple(dict.fromkeys(partition)), ordered, specs[-1] if specs else None

    # The queries --------------------------------------------------------------------------------------------------

    def reads(self) -> list[Expression]:
        """All expressions that the window functions read."""
        return [e for call in self.calls for e in call.reads]

    def split(self, wanted: Sequence[Expression]) -> tuple[list[Expression], list[Expression]]:
        """The expressions that the query below the windows computes, and the wanted expressions in terms of its columns
        (relation 0) and the window functions (`WindowRef`)."""
        inner: list[Expression] = []

        def lifted(e: Expression) -> Expression:
            if isinstance(e, (Literal, WindowRef)):
                return e
            if any(isinstance(p, WindowRef) for p in walk(e)):
                return with_children(e, tuple(map(lifted, children(e))))
            return ColumnRef(e.type, 0, _place(inner, e), describe(e), functions.nullable(e))

        above = [lifted(e) for e in wanted]
        for e in self.reads():
            _place(inner, e)
        return inner or [Literal(types.INT, 1)], above

    def over(
        self, source: AnyQuery, inner: list[Expression], above: Sequence[Expression]
    ) -> tuple[AnyQuery, list[Expression]]:
        """The windows above a query that computes `inner`, and the wanted expressions over their columns alone."""
        kinds: dict[tuple[tuple[int, ...], tuple[SortKey, ...]], list[int]] = {}
        for i, call in enumerate(self.calls):
            order = tuple(o.key(_place(inner, o.expression)) for o in call.order)
            kinds.setdefault((tuple(_place(inner, e) for e in call.partition), order), []).append(i)
        place: dict[int, int] = {}
        for (partition, order), members in kinds.items():
            fields, calls = list(source.fields), []
            for i in members:
                called, frame = self.calls[i].function, self.calls[i].frame
                place[i] = len(fields)
                fields.append(Field(called.name, called.type, called.nullable))
                args = tuple(_place(inner, e) for e in called.args)
                only = None if called.filter is None else _place(inner, called.filter)
                calls.append(
                    WindowCall(called.name, args, called.type, frame, called.constant, only, called.ignore_nulls)
                )
            source = Windowed(source, partition, order, tuple(calls), tuple(fields), None, False)

        def settled(e: Expression) -> Expression:
            return ColumnRef(e.type, 0, place[e.column], e.name, e.nullable) if isinstance(e, WindowRef) else e

        return source, [transform(e, settled) for e in above]


def _place(expressions: list[Expression], wanted: Expression) -> int:
    """The position of an expression in a list, to which it is appended if missing."""
    if wanted not in expressions:
        expressions.append(wanted)
    return expressions.index(wanted)
