"""What stands before OVER: which window function it is, what it reads, and its type.

Ranks read nothing, LAG and LEAD a row near by, FIRST_VALUE and its kin a row of the frame, aggregates all rows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from freshet.aggregates import AGGREGATES
from freshet.errors import SqlError
from freshet.scalar import functions, types
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.functions.coercion import common_type
from freshet.scalar.types import Type
from freshet.sql.source import Statement, sql_of

_RANKS: dict[type[exp.Expr], tuple[str, Type]] = {
    exp.RowNumber: ("row_number", types.INT),
    exp.Rank: ("rank", types.INT),
    exp.DenseRank: ("dense_rank", types.INT),
    exp.PercentRank: ("percent_rank", types.DOUBLE),
    exp.CumeDist: ("cume_dist", types.DOUBLE),
    exp.Ntile: ("ntile", types.INT),
}
_NEIGHBOURS: dict[type[exp.Expr], str] = {exp.Lag: "lag", exp.Lead: "lead"}
NEEDS_OVER = (*_RANKS, *_NEIGHBOURS, exp.NthValue)
_VALUES: dict[type[exp.Expr], str] = {
    exp.FirstValue: "first_value", exp.First: "first_value", exp.AnyValue: "first_value",
    exp.LastValue: "last_value", exp.Last: "last_value", exp.NthValue: "nth_value",
}  # fmt: skip
_CONDITIONS: dict[type[exp.Expr], str] = {exp.LogicalAnd: "min", exp.LogicalOr: "max", exp.CountIf: "count"}
_SPREADS: dict[type[exp.Expr], str] = {
    exp.Stddev: "stddev_samp", exp.StddevSamp: "stddev_samp", exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp", exp.VariancePop: "var_pop",
}  # fmt: skip
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", **_CONDITIONS, **_SPREADS,
}  # fmt: skip
_KNOWN = (
    "ROW_NUMBER, RANK, DENSE_RANK, NTILE, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN, MAX, STDDEV, "
    "VARIANCE, BOOL_AND and BOOL_OR are"
)


@dataclass(frozen=True, slots=True)
class Function:
    """`ordered`: whether it depends on an order; `framed`: whether it looks at a frame."""

    name: str
    args: tuple[Expression, ...]
    type: Type
    nullable: bool
    constant: int = 0
    ignore_nulls: bool = False
    filter: Expression | None = None
    ordered: bool = False
    framed: bool = True


@dataclass(frozen=True, slots=True)
class FunctionBinder:
    """`read` binds an argument, `condition` one that is a truth value, `only` the condition of FILTER."""

    statement: Statement
    read: Callable[[exp.Expr], Expression]
    condition: Callable[[exp.Expr], Expression]
    only: Callable[[exp.Expr], Expression]
    node: exp.Expr

    def bind(self, call: exp.Expr) -> Function:
        ignores, only = False, None
        while isinstance(call, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
            if isinstance(call, exp.Filter):
                only = call.expression.this
            ignores |= isinstance(call, exp.IgnoreNulls)
            call = call.this
        name = call.sql_name() if isinstance(call, exp.Func) else sql_of(call)
        if ignores and type(call) not in _NEIGHBOURS and type(call) not in _VALUES:
            self.statement.fail(f"{name} does not take IGNORE NULLS; leave it out", self.node)
        if only is not None and (type(call) in _RANKS or type(call) in _NEIGHBOURS or isinstance(call, exp.NthValue)):
            self.statement.fail(f"{name} does not take FILTER; use CASE in its argument", self.node)
        if type(call) in _RANKS:
            return self._rank(call)
        if type(call) in _NEIGHBOURS:
            return self._neighbour(call, ignores)
        seen = None if only is None else self.only(only)
        if type(call) in _VALUES:
            return self._value(call, ignores, seen)
        return self._aggregate(call, seen)

    def _rank(self, call: exp.Expr) -> Function:
        name, kind = _RANKS[type(call)]
        self.statement.only(call, ("this",) if name == "ntile" else ())
        buckets = 0 if name != "ntile" else 1 if call.this is None else self._whole(call.this, name, 1)
        return Function(name, (), kind, False, buckets, ordered=True, framed=False)

    def _neighbour(self, call: exp.Expr, ignores: bool) -> Function:
        self.statement.only(call, ("this", "offset", "default"))
        name, given, default = _NEIGHBOURS[type(call)], call.args.get("offset"), call.args.get("default")
        value, distance = self.read(call.this), 1 if given is None else self._whole(given, name)
        args: tuple[Expression, ...] = (value,)
        if default is not None:
            instead = self.read(default)
            if value.type.name == "VOID" or value.type.name == instead.type.name == "DECIMAL":
                value = self._cast(value, common_type((value.type, instead.type)) or value.type)
            args = (value, self._cast(instead, value.type))
        if distance < 0:
            name, distance = "lead" if name == "lag" else "lag", -distance
        return Function(name, args, value.type, True, distance, ignores, ordered=True, framed=False)

    def _value(self, call: exp.Expr, ignores: bool, seen: Expression | None) -> Function:
        name = _VALUES[type(call)]
        self.statement.only(call, ("this", "offset", "from_first"))
        value, third = self.read(call.this), call.args.get("from_first")
        if third is not None:  # the parser's name for the third argument, which says whether to ignore NULLs
            if not isinstance(third, exp.Boolean):
                wanted = f"NTH_VALUE takes TRUE or FALSE as its third argument, not {sql_of(third)}"
                self.statement.fail(f"{wanted}; write one", call)
            ignores |= bool(third.this)
        nth = self._whole(call.args["offset"], name, 1) if name == "nth_value" else 0
        return Function(name, (value,), value.type, True, nth, ignores, seen, ordered=name == "nth_value")

    def _aggregate(self, call: exp.Expr, seen: Expression | None) -> Function:
        function = _AGGREGATES.get(type(call))
        if function is None:
            self.statement.refuse(f"{sql_of(call)} as a window function", _KNOWN, self.node)
        self.statement.only(call, ("this", "expressions") if function == "count" else ("this",))
        if isinstance(call.this, exp.Distinct):
            self.statement.refuse(
                "DISTINCT in a window function", "take the distinct rows in a FROM subquery", self.node
            )
        if isinstance(call, exp.CountIf):
            counted = self.condition(call.this)
            seen = counted if seen is None else functions.build("and", (seen, counted))
            return Function("count", (), types.BIGINT, False, filter=seen)
        parts = [] if isinstance(call.this, exp.Star) else [call.this, *call.expressions]
        args = tuple(self.condition(p) if type(call) in _CONDITIONS else self.read(p) for p in parts)
        if function == "count":
            args = tuple(a for a in args if functions.nullable(a))
        try:
            kind = AGGREGATES[function].type([a.type for a in args])
        except SqlError as error:
            raise self.statement.placed(error, self.node) from None
        if type(call) in _SPREADS:
            args = tuple(self._cast(a, types.DOUBLE) for a in args)
        return Function(function, args, kind, function != "count", filter=seen)

    def _cast(self, value: Expression, to: Type) -> Expression:
        try:
            return value if value.type == to else functions.cast(value, to)
        except SqlError as error:
            raise self.statement.placed(error, self.node) from None

    def _whole(self, node: exp.Expr, function: str, least: int | None = None) -> int:
        """A constant argument."""
        bound = self.read(node)
        fits = isinstance(bound, Literal) and bound.type in (types.TINYINT, types.SMALLINT, types.INT)
        value = bound.value if fits and isinstance(bound, Literal) else None
        if isinstance(value, int) and (least is None or value >= least):
            return value
        wanted = "a whole number" if least is None else f"a whole number from {least} on"
        written = sql_of(node)
        self.statement.fail(f"{function.upper()} takes {wanted}, a constant, not {written}; write one", node)
