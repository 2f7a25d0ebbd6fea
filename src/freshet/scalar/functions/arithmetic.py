"""Arithmetic: + - * / div % and negation.

Integers stay in their type and overflow is an error. Decimals are computed on unscaled integers: in one lane while
every result fits, exactly in 128 bits (state/wide) otherwise, and the result's precision is checked. FLOAT results are
rounded to 32 bits after each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.coercion import arithmetic_decimal, common_type, operand_decimal
from freshet.scalar.functions.intervals import bounds, resolve_temporal
from freshet.scalar.functions.registry import FUNCTIONS, THIS, Function, Step, declare, function_of, refuse
from freshet.scalar.functions.rows import ALL, both, first_bad, lane, longest
from freshet.scalar.types import BIGINT, DOUBLE, INTEGER_RANGE, Type
from freshet.state import checked, wide
from freshet.state.arrays import Int64s

_LANE_DIGITS = 18
_KERNELS = {"add": checked.add, "subtract": checked.subtract, "multiply": checked.multiply}
_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "modulo": np.fmod,
}
_ZERO, _ONE = np.zeros(1, np.int64), np.ones(1, np.int64)


# Typing ---------------------------------------------------------------------------------------------------------


def _resolve(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2:
        raise refuse(name, args)
    a, b = args
    if any(e.type.name in ("DATE", "TIMESTAMP") or e.type.is_interval for e in args):
        return resolve_temporal(name, a, b)
    a, b = _numbers(name, a, b)
    if name == "divide" and not (a.type.name == "DECIMAL" or b.type.name == "DECIMAL"):
        return Call(DOUBLE, name, (cast(a, DOUBLE), cast(b, DOUBLE)))
    if (a.type.name == "DECIMAL" or b.type.name == "DECIMAL") and not (a.type.is_fraction or b.type.is_fraction):
        p, q = operand_decimal(a), operand_decimal(b)
        result = BIGINT if name == "div" else arithmetic_decimal(name, p, q)
        return Call(result, name, (cast(a, p), cast(b, q)))
    if name == "div":
        if not (a.type.is_integer and b.type.is_integer):
            raise refuse(name, args)
        return Call(BIGINT, name, (cast(a, BIGINT), cast(b, BIGINT)))
    common = common_type((a.type, b.type))
    assert common is not None
    return Call(common, name, (cast(a, common), cast(b, common)))


def _numbers(name: str, a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """Text combined with a number is read as BIGINT or DOUBLE; a bare NULL takes the other side's type."""
    types = [t for t in (a.type, b.type) if t.name != "VOID"]
    if not all(t.is_numeric or t.name == "STRING" for t in types):
        raise refuse(name, (a, b))
    if not types:
        return cast(a, DOUBLE), cast(b, DOUBLE)
    if not any(t.is_numeric for t in types):
        raise refuse(name, (a, b))
    if name == "divide" and a.type.name == "VOID":
        return cast(a, DOUBLE), cast(b, DOUBLE)
    number = next(t for t in types if t.is_numeric)
    read = BIGINT if number.is_integer else DOUBLE

    def fit(e: Expression) -> Expression:
        return cast(e, read) if e.type.name == "STRING" else cast(e, number) if e.type.name == "VOID" else e

    return fit(a), fit(b)


def _resolve_unary(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1:
        raise refuse(name, args)
    (a,) = args
    if a.type.name in ("STRING", "VOID"):
        a = cast(a, DOUBLE)
    if not (a.type.is_numeric or a.type.is_interval):
        raise refuse(name, args)
    return Call(a.type, name, (a,))


def _resolve_signed(name: str, args: tuple[Expression, ...]) -> Expression:
    negated = _resolve_unary("negate", args)
    assert isinstance(negated, Call)
    (a,) = negated.args
    if name == "negative":
        return negated
    return Literal(a.type, a.value) if isinstance(a, Literal) else a


# Computing ------------------------------------------------------------------------------------------------------


def _compute(call: Call) -> Step:
    operands = call.args[0].type  # both have the same type
    if operands.name == "DECIMAL":
        return _decimal_step(call)
    if operands.is_fraction:
        return _float_step(call)
    return _integer_step(call)


def _failure(call: Call, row: int, divisor: Column | None = None) -> EvaluationError:
    """The error for a zero divisor or a result that does not fit."""
    sign = function_of(call).sign or call.name
    if divisor is not None:
        at = 0 if len(divisor) == 1 else row
        if divisor.data[at] == 0 and (divisor.hi is None or divisor.hi[at] == 0):
            return EvaluationError(f"division by zero in {sign}; guard it with NULLIF(divisor, 0)", row)
    return EvaluationError(f"the result of {sign} does not fit {call.type}; cast an operand to a wider type", row)


def _bounds(type: Type) -> tuple[int, int]:
    if type.name == "DECIMAL":
        most = 10 ** min(type.precision, _LANE_DIGITS) - 1
        return -most, most
    return bounds(type) if type.is_interval else INTEGER_RANGE.get(type.name, INTEGER_RANGE["BIGINT"])


def _integer_step(call: Call) -> Step:
    type, (least, greatest) = call.type, _bounds(call.type)
    divides = call.name in ("div", "modulo")
    kernel = {**_KERNELS, "div": checked.quotient, "modulo": checked.remainder}[call.name]

    def step(a: Column, b: Column) -> Column:
        x, y = lane(a.data), lane(b.data)
        valid = both(a.valid, b.valid)
        out = np.empty(len(x) if len(x) != 1 else len(y), np.int64)
        bad = kernel(x, y, ALL if valid is None else valid, least, greatest, out)
        if bad >= 0:
            raise _failure(call, bad, b if divides else None)
        return Column(type, out, valid)

    return step


def _float_step(call: Call) -> Step:
    type, operation, divides = call.type, _FLOATS[call.name], call.name in ("divide", "modulo")

    def step(a: Column, b: Column) -> Column:
        valid = both(a.valid, b.valid)
        if divides:
            bad = first_bad(np.broadcast_to(b.data == 0, longest(a, b)), valid)
            if bad >= 0:
                raise _failure(call, bad, b)
        with np.errstate(all="ignore"):
            data = operation(a.data, b.data)
            if type.name == "FLOAT":
                data = data.astype(np.float32).astype(np.float64)
        return Column(type, data, valid)

    return step


def _decimal_step(call: Call) -> Step:
    a, b = call.args
    if call.name in ("add", "subtract"):
        return _sum_step(call)
    if call.name == "multiply":
        return _product_step(call)
    if call.name == "modulo":
        return _remainder_step(call)
    scale = 0 if call.name == "div" else call.type.scale
    return _quotient_step(call, scale - a.type.scale + b.type.scale)


def _sum_step(call: Call) -> Step:
    """Both sides at the larger scale, added, and rounded if the result has fewer digits."""
    a, b = call.args
    scale, type, digits = max(a.type.scale, b.type.scale), call.type, call.type.precision
    up_a, up_b, down = scale - a.type.scale, scale - b.type.scale, scale - type.scale
    factor_a, factor_b = _power(up_a), _power(up_b)
    kernel, sign, (least, greatest) = _KERNELS[call.name], 1 if call.name == "add" else -1, _bounds(type)
    ready_a, ready_b = _scaled_literal(a, up_a), _scaled_literal(b, up_b)
    fast = down == 0 and up_a <= _LANE_DIGITS and up_b <= _LANE_DIGITS

    def step(x: Column, y: Column) -> Column:
        valid = both(x.valid, y.valid)
        known = ALL if valid is None else valid
        if fast and x.hi is None and y.hi is None:
            p = ready_a if ready_a is not None else _rescaled(lane(x.data), up_a, factor_a, known)
            q = ready_b if ready_b is not None else _rescaled(lane(y.data), up_b, factor_b, known)
            if p is not None and q is not None:
                out = np.empty(len(p) if len(p) != 1 else len(q), np.int64)
                if kernel(p, q, known, least, greatest, out) < 0:
                    return Column(type, out, valid)
        lo, hi = _outputs(x, y)
        bad = wide.blend(*_lanes(x), *_lanes(y), known, sign, up_a, up_b, down, digits, hi, lo)
        return _wide_column(call, bad, lo, hi, valid)

    return step


def _product_step(call: Call) -> Step:
    type, digits, (least, greatest) = call.type, call.type.precision, _bounds(call.type)
    down = call.args[0].type.scale + call.args[1].type.scale - type.scale

    def step(x: Column, y: Column) -> Column:
        valid = both(x.valid, y.valid)
        known = ALL if valid is None else valid
        if down == 0 and x.hi is None and y.hi is None:
            p, q = lane(x.data), lane(y.data)
            out = np.empty(len(p) if len(p) != 1 else len(q), np.int64)
            if checked.multiply(p, q, known, least, greatest, out) < 0:
                return Column(type, out, valid)
        lo, hi = _outputs(x, y)
        bad = wide.ratio(*_lanes(x), *_lanes(y), _ZERO, _ONE, known, 0, down, wide.HALF_UP, digits, hi, lo)
        return _wide_column(call, bad, lo, hi, valid)

    return step


def _quotient_step(call: Call, shift: int) -> Step:
    """a * 10**shift / b: HALF_UP for `/`, towards zero and in BIGINT for `div`."""
    up, down = max(shift, 0), max(-shift, 0)
    mode, digits = (wide.DOWN, 38) if call.name == "div" else (wide.HALF_UP, call.type.precision)

    def step(x: Column, y: Column) -> Column:
        valid = both(x.valid, y.valid)
        known = ALL if valid is None else valid
        lo, hi = _outputs(x, y)
        bad = wide.ratio(*_lanes(x), _ZERO, _ONE, *_lanes(y), known, up, down, mode, digits, hi, lo)
        made = _wide_column(call, bad, lo, hi, valid, y)
        if call.name == "div" and made.hi is not None:
            bad = first_bad(hi != lo >> 63, valid)
            if bad >= 0:
                raise _failure(call, bad)
            made.hi = None
        return made

    return step


def _remainder_step(call: Call) -> Step:
    """a % b at the larger scale, with the sign of a."""
    a, b = call.args
    scale, digits = max(a.type.scale, b.type.scale), call.type.precision
    up_a, up_b = scale - a.type.scale, scale - b.type.scale

    def step(x: Column, y: Column) -> Column:
        valid = both(x.valid, y.valid)
        known = ALL if valid is None else valid
        lo, hi = _outputs(x, y)
        bad = wide.ratio(*_lanes(x), _ZERO, _ONE, *_lanes(y), known, up_a, up_b, wide.REMAINDER, digits, hi, lo)
        return _wide_column(call, bad, lo, hi, valid, y)

    return step


def _power(digits: int) -> Int64s:
    return np.array([10 ** min(digits, _LANE_DIGITS)], np.int64)


def _scaled_literal(argument: Expression, up: int) -> Int64s | None:
    """A literal side is rescaled once, when the step is created."""
    if not isinstance(argument, Literal) or not isinstance(argument.value, int):
        return None
    scaled = argument.value * 10**up
    return np.array([scaled], np.int64) if -(1 << 63) <= scaled < 1 << 63 else None


def _rescaled(data: Int64s, up: int, factor: Int64s, known: Any) -> Int64s | None:
    """data * 10**up in one lane; None when some valid row does not fit."""
    if up == 0:
        return data
    out = np.empty(len(data), np.int64)
    if len(data) != len(known):
        known = ALL
    least, greatest = INTEGER_RANGE["BIGINT"]
    return out if checked.multiply(data, factor, known, least, greatest, out) < 0 else None


def _lanes(column: Column) -> tuple[Int64s, Int64s]:
    lo = lane(column.data)
    return wide.high(lo, column.hi), lo


def _outputs(x: Column, y: Column) -> tuple[Int64s, Int64s]:
    rows = longest(x, y)
    return np.empty(rows, np.int64), np.empty(rows, np.int64)


def _wide_column(call: Call, bad: int, lo: Int64s, hi: Int64s, valid: Any, divisor: Column | None = None) -> Column:
    if bad >= 0:
        raise _failure(call, bad, divisor)
    return Column(call.type, lo, valid, wide.narrow(lo, hi))


def _unary(call: Call) -> Step:
    type = call.type
    if type.is_fraction:
        operation = np.negative if call.name == "negate" else np.abs
        return lambda a: Column(type, operation(a.data), a.valid)
    least = _bounds(type)[0] if type.name != "DECIMAL" else INTEGER_RANGE["BIGINT"][0]
    absolute = call.name == "abs"

    def step(a: Column) -> Column:
        if a.hi is None:
            bad = first_bad(a.data == least, a.valid)
            if bad < 0:
                return Column(type, np.abs(a.data) if absolute else -a.data, a.valid)
            if type.name != "DECIMAL":
                raise EvaluationError(f"the negative of {least} does not fit {type}; cast it to a wider type", bad)
        lo = lane(a.data)
        hi = wide.high(lo, a.hi)
        # Two's complement: -x is ~x + 1, with the carry reaching the upper lane only when the lower one is zero.
        flip = hi < 0 if absolute else np.ones(len(lo), np.bool_)
        new_lo, new_hi = np.where(flip, -lo, lo), np.where(flip, ~hi + (lo == 0), hi)
        return Column(type, new_lo, a.valid, wide.narrow(new_lo, new_hi))

    return step


def _duckdb(call: Call, args: Sequence[str]) -> str | None:
    """SQL for DuckDB if the types alone guarantee that every result fits: DuckDB skips computations that it does not
    need, and so misses some failures."""
    (x, y), target, product = call.args, call.type, call.name == "multiply"
    if not all(t.is_integer or t.name == "DECIMAL" for t in (x.type, y.type, target)):
        return None
    scale = x.type.scale + y.type.scale if product else max(x.type.scale, y.type.scale)
    if target.scale != scale:
        return None
    x_most, y_most = _greatest(x), _greatest(y)
    aligned = x_most * 10 ** (scale - x.type.scale) + y_most * 10 ** (scale - y.type.scale)
    most = x_most * y_most if product else aligned
    if most > (10**target.precision - 1 if target.name == "DECIMAL" else INTEGER_RANGE[target.name][1]):
        return None
    return f"CAST({args[0]} {FUNCTIONS[call.name].sign} {args[1]} AS {target})"


def _greatest(expression: Expression) -> int:
    """The greatest absolute value it may have, unscaled; casts between integers are lossless where they occur."""
    if isinstance(expression, Literal) and isinstance(expression.value, int):
        return abs(expression.value)
    if isinstance(expression, Call) and expression.name == "cast" and expression.type.is_integer:
        inner = expression.args[0].type
        if inner.is_integer:
            return min(_most(inner), _most(expression.type))
    return _most(expression.type)


def _most(type_: Type) -> int:
    return 10**type_.precision - 1 if type_.name == "DECIMAL" else -INTEGER_RANGE[type_.name][0]


declare(
    Function("add", "two numbers", _resolve, _compute, spelled=False, operator=exp.Add, sign="+", duckdb=_duckdb),
    Function("subtract", "two numbers", _resolve, _compute, spelled=False, operator=exp.Sub, sign="-", duckdb=_duckdb),
    Function("multiply", "two numbers", _resolve, _compute, spelled=False, operator=exp.Mul, sign="*", duckdb=_duckdb),
    Function("divide", "two numbers", _resolve, _compute, spelled=False, operator=exp.Div, sign="/"),
    Function("modulo", "two numbers", _resolve, _compute, spelled=False, operator=exp.Mod, sign="%"),
    Function("div", "two numbers", _resolve, _compute, spelled=False, operator=exp.IntDiv),
    Function("negate", "a number", _resolve_unary, _unary, spelled=False),
    Function("abs", "a number", _resolve_unary, _unary, parsed={exp.Abs: THIS}),
    *(Function(name, "a number", _resolve_signed) for name in ("negative", "positive")),
)
