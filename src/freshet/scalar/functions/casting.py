"""CAST by Spark's ANSI rules: which casts exist, and those between numbers, dates and timestamps.

A value that does not fit the target is an error, never wrapped or set to NULL. Fractional digits that the target lacks
are rounded HALF_UP to decimals and dropped to integers. Text is in `text_casts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from freshet.errors import EvaluationError, SqlError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions import text_casts
from freshet.scalar.functions.coercion import as_decimal
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.nested_texts import nested_texts
from freshet.scalar.functions.registry import Function, Step, declare
from freshet.scalar.functions.rows import ALL, as_bytes, first_bad, lane, out_of_years, spread, within_years
from freshet.scalar.interval import SIZES
from freshet.scalar.nested import Lists, fields_of, lists_of, make_lists, make_structs, valid_of
from freshet.scalar.types import BIGINT, DOUBLE, INTEGER_RANGE, TIME_RANGE, Type, decimal
from freshet.state import checked, wide
from freshet.state.arrays import BYTES, Bools, Int64s

_DAY = 86_400_000_000
_SECOND = 1_000_000
_ZERO, _ONE = np.zeros(1, np.int64), np.ones(1, np.int64)
_EXACT_DOUBLE = 1 << 53
_EXACT_POWER = 22  # 10**22 is the largest power of ten a double holds exactly
_SAFE = 10**12  # below it, the product with a power of ten is within 0.001 of the exact one
_TEMPORAL = ("DATE", "TIMESTAMP")


def cast(expression: Expression, type: Type) -> Expression:
    """The expression cast to `type`: the expression itself if it has that type, a literal if it is a literal."""
    source = expression.type
    if source == type:
        return expression
    if isinstance(expression, Literal) and (expression.value is None or _holds(type, expression)):
        return Literal(type, expression.value)
    if not can_cast(source, type):
        instead = "use EXTRACT or DATEDIFF" if source.name == "DATE" else "cast it to another type"
        instead = "use DATE_ADD" if type.name == "DATE" and source.name != "BINARY" else instead
        instead = "cast it to STRING first" if "BINARY" in (source.name, type.name) else instead
        raise SqlError(f"a {source} cannot be cast to {type}; {instead}")
    return fold(Call(type, "cast", (expression,)))


def _holds(type: Type, literal: Literal) -> bool:
    """Whether an integer literal keeps its value: IN may list thousands, and computing each would cost more than
    parsing it."""
    if not (isinstance(literal.value, int) and literal.type.is_integer and type.is_integer):
        return False
    least, greatest = INTEGER_RANGE[type.name]
    return least <= literal.value <= greatest


def can_cast(source: Type, target: Type) -> bool:
    if target.name == "VOID" or (source != target and "VARIANT" in (source.name, target.name)):
        return target.name == "VARIANT" and source.name == "VOID"
    if source.is_interval or target.is_interval:
        return _can_cast_interval(source, target)
    if source.is_nested and target.name == "STRING":
        return target.length is None
    if source.is_nested or (target.is_nested and source.name != "VOID"):
        same = source.name == target.name and len(source.parts) == len(target.parts)
        return same and all(
            a == b or (can_cast(a, b) and b.name != "VOID") for a, b in zip(source.parts, target.parts, strict=True)
        )
    if source.name in ("VOID", "STRING") or target.name == "STRING" or source.name == target.name:
        return True
    if source.name == "BINARY" or target.name == "BINARY":
        return False
    if source.name in _TEMPORAL and target.name in _TEMPORAL:
        return True
    if source.name == "TIMESTAMP" or target.name == "TIMESTAMP":
        return source.is_numeric or target.is_numeric
    return source.name != "DATE" and target.name != "DATE"


def _can_cast_interval(source: Type, target: Type) -> bool:
    other = target if source.is_interval else source
    if other.is_interval:
        return source.name == target.name
    return other.is_integer or other.name in ("DECIMAL", "STRING") or source.name == "VOID"


def _never_fails(call: Call) -> bool:
    source, target = call.args[0].type, call.type
    if source.name == "VOID" or (target.name in ("BOOLEAN", "STRING") and not source.pooled):
        return target.length is None
    if source.is_nested:
        pairs = zip(source.parts, target.parts, strict=False)
        return all(_never_fails(Call(b, "cast", (Literal(a, None),))) or a == b for a, b in pairs)
    if source.pooled:
        return target.name == "BINARY" or (target.name == source.name and target.length is None)
    if target.is_fraction or {source.name, target.name} == set(_TEMPORAL):
        return True
    if source.is_integer and target.is_integer:
        return INTEGER_RANGE[source.name][0] >= INTEGER_RANGE[target.name][0]
    if target.name == "DECIMAL" and (source.is_integer or source.name == "DECIMAL"):
        exact = as_decimal(source)
        return exact.scale <= target.scale and exact.precision - exact.scale <= target.precision - target.scale
    return False


def _compute(call: Call) -> Step:
    source, target = call.args[0].type, call.type
    if target.pooled and source.name == "VOID":
        return lambda a: Column(target, pa.nulls(len(a), target.pooled), a.valid)
    if source.is_nested:
        return _from_nested(source, target)
    if target.name == "BINARY":
        return as_bytes if source.name == "STRING" else lambda a: Column(target, pa.nulls(len(a), BYTES), a.valid)
    if source.name == "STRING":
        return text_casts.reader(target)
    if target.name == "STRING":
        return text_casts.writer(source, target)
    if source.is_interval:
        return _from_interval(source, target)
    if target.is_interval and source.name != "VOID":
        return _to_interval(source, target)
    if source.name == "VOID":
        return lambda a: Column(target, np.zeros(len(a), np.float64 if target.is_fraction else np.int64), a.valid)
    if target.name == "BOOLEAN":
        return lambda a: Column(target, a.data != 0 if a.hi is None else (a.data != 0) | (a.hi != 0), a.valid)
    if target.name == "TIMESTAMP":
        return _to_timestamp(source, target)
    if source.name == "TIMESTAMP":
        return _from_timestamp(target)
    if source.is_fraction:
        return _from_fraction(source, target)
    if source.name == "DECIMAL":
        return _from_decimal(source, target)
    return _from_integer(source, target)


def _from_nested(source: Type, target: Type) -> Step:
    """Casts the parts; those of structs by their positions."""
    if target.name == "STRING":
        return nested_texts
    if source.parts == target.parts:  # only names of fields differ
        return lambda a: Column(target, a.data, a.valid, pool=a.pool)
    steps = [None if a == b else _part_step(a, b) for a, b in zip(source.parts, target.parts, strict=True)]

    def cast_parts(columns: Sequence[Column], rows: Int64s | None) -> tuple[Column, ...]:
        made = []
        for step, column in zip(steps, columns, strict=True):
            try:
                made.append(column if step is None or not len(column) else spread(step(column), len(column)))
            except EvaluationError as e:
                raise e if e.row is None or rows is None else EvaluationError(e.reason, int(rows[e.row])) from None
        return tuple(made)

    def cast_structs(a: Column) -> Column:
        return make_structs(target, cast_parts(fields_of(a), None), valid_of(a), len(a))

    def cast_lists(a: Column) -> Column:
        lists = lists_of(a)
        return make_lists(target, Lists(lists.offsets, cast_parts(lists.columns, lists.rows)), valid_of(a))

    return cast_structs if source.name == "STRUCT" else cast_lists


def _part_step(source: Type, target: Type) -> Step:
    return _compute(Call(target, "cast", (Literal(source, None),)))


def unfit(value: object, target: Type, row: int) -> EvaluationError:
    return EvaluationError(f"{value} does not fit {target}; use a wider type", row)


def _from_integer(source: Type, target: Type) -> Step:
    """Casts from integers and BOOLEAN, which is 0 or 1."""
    if target.is_fraction:
        width: type = np.float32 if target.name == "FLOAT" else np.float64
        return lambda a: Column(target, a.data.astype(width).astype(np.float64), a.valid)
    if target.name == "DECIMAL":
        exact = decimal(1, 0) if source.name == "BOOLEAN" else as_decimal(source)
        return lambda a: rescaled(_whole(a), 0, target, digits=exact.precision)
    if source.name == "BOOLEAN" or _never_fails(Call(target, "cast", (Literal(source, 0),))):
        return lambda a: Column(target, _whole(a).data, a.valid)
    return lambda a: Column(target, _in_range(a.data, a.valid, target), a.valid)


def _whole(a: Column) -> Column:
    return a if a.data.dtype == np.int64 else Column(a.type, a.data.astype(np.int64), a.valid)


def _in_range(data: Int64s, valid: Bools | None, target: Type) -> Int64s:
    least, greatest = INTEGER_RANGE[target.name]
    bad = first_bad((data < least) | (data > greatest), valid)
    if bad >= 0:
        raise unfit(int(data[bad]), target, bad)
    return data


def _from_decimal(source: Type, target: Type) -> Step:
    if target.name == "DECIMAL":
        return lambda a: rescaled(a, source.scale, target, digits=source.precision)
    if target.is_fraction:
        return lambda a: Column(target, _single(as_double(a, source.scale), target), a.valid)

    def step(a: Column) -> Column:
        whole = rescaled(a, source.scale, decimal(38, 0), wide.DOWN)
        if whole.hi is not None:
            bad = first_bad(whole.hi != whole.data >> 63, a.valid)
            if bad >= 0:
                raise unfit(text_casts.decimal_text(a, source.scale, bad), target, bad)
        return Column(target, _in_range(whole.data, a.valid, target), a.valid)

    return step


def _single(data: npt.NDArray[np.float64], target: Type) -> npt.NDArray[np.float64]:
    if target.name != "FLOAT":
        return data
    with np.errstate(over="ignore"):
        return data.astype(np.float32).astype(np.float64)


def rescaled(a: Column, scale: int, target: Type, mode: int = wide.HALF_UP, digits: int = 38) -> Column:
    """Unscaled values of `scale` (and at most `digits` digits) as values of the decimal `target`."""
    shift, precision = target.scale - scale, target.precision
    if a.hi is None:
        if shift == 0 and digits <= precision:
            return Column(target, a.data, a.valid)
        out = _rescaled_lane(lane(a.data), a.valid, shift, precision, mode)
        if out is not None:
            return Column(target, out, a.valid)
    lo, hi = np.empty(len(a), np.int64), np.empty(len(a), np.int64)
    data, valid = lane(a.data), ALL if a.valid is None else a.valid
    up, down = max(shift, 0), max(-shift, 0)
    a_hi = wide.high(data, a.hi)
    if len(valid) > len(data):
        valid = ALL
    bad = wide.ratio(a_hi, data, _ZERO, _ONE, _ZERO, _ONE, valid, up, down, mode, precision, hi, lo)
    if bad >= 0:
        raise unfit(text_casts.decimal_text(a, scale, bad), target, bad)
    return Column(target, lo, a.valid, wide.narrow(lo, hi))


def _rescaled_lane(data: Int64s, valid: Bools | None, shift: int, precision: int, mode: int) -> Int64s | None:
    """The same in one lane; None if some value needs more, or too many digits: then the wide kernel decides."""
    most = 10**precision - 1 if precision <= 18 else (1 << 62)
    if shift >= 0:
        if shift > 18:
            return None
        out = np.empty(len(data), np.int64)
        known = ALL if valid is None or len(valid) > len(data) else valid
        factor = np.array([10**shift], np.int64)
        return out if checked.multiply(data, factor, known, -most, most, out) < 0 else None
    if shift < -18 or mode not in (wide.HALF_UP, wide.DOWN):
        return None
    size = np.abs(data)
    if size.size and (size.max() > 1 << 62 or size.min() < 0):
        return None
    divisor = 10**-shift
    quotient = (size + (divisor // 2 if mode == wide.HALF_UP else 0)) // divisor
    if quotient.size and quotient.max() > most:
        return None
    signed: Int64s = np.where(data < 0, -quotient, quotient)
    return signed


def as_double(a: Column, scale: int) -> npt.NDArray[np.float64]:
    """The nearest double to each decimal. One division of two exact doubles rounds once; longer numbers go through
    text, whose parser also rounds once."""
    if a.hi is None and scale <= _EXACT_POWER:
        size = np.abs(a.data)
        if not size.size or (size.max() <= _EXACT_DOUBLE and size.min() >= 0):
            divided: npt.NDArray[np.float64] = a.data / 10.0**scale
            return divided
    text = text_casts.decimals(a, scale)
    doubles: npt.NDArray[np.float64] = pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False)
    return doubles


def _from_fraction(source: Type, target: Type) -> Step:
    if target.is_fraction:
        return lambda a: Column(target, _single(a.data, target), a.valid)
    if target.name == "DECIMAL":
        return lambda a: from_doubles(a, target)
    least, greatest = INTEGER_RANGE[target.name]

    def step(a: Column) -> Column:
        with np.errstate(invalid="ignore"):
            whole = np.trunc(a.data)
            # 2**63 - 1 is not a double; the first double beyond BIGINT is 2**63 itself.
            fits = (whole >= float(least)) & (whole < float(greatest + 1))
            bad = first_bad(~fits, a.valid)
            if bad >= 0:
                raise unfit(text_casts.java_double(a.data[bad], source), target, bad)
            return Column(target, whole.astype(np.int64), a.valid)

    return step


def from_doubles(a: Column, target: Type) -> Column:
    """Doubles as decimals: the shortest decimal text of each, rounded HALF_UP. The product with 10**scale decides,
    unless it is so close to a half, or so large, that its own rounding could change the result: those few go through
    text."""
    finite = np.isfinite(a.data)
    bad = first_bad(~finite, a.valid)
    if bad >= 0:
        raise unfit(text_casts.java_double(a.data[bad], DOUBLE), target, bad)
    with np.errstate(over="ignore"):
        scaled = np.minimum(np.where(finite, np.abs(a.data), 0) * 10.0**target.scale, _SAFE)
    base = np.floor(scaled)
    near = np.abs(scaled - base - 0.5) <= 1e-3
    doubtful = np.flatnonzero(near | (scaled >= _SAFE) | (target.scale > _EXACT_POWER))
    data = np.where(scaled - base >= 0.5, base + 1, base)
    data = np.copysign(np.where(scaled < _SAFE, data, 0), a.data).astype(np.int64)
    hi = data >> 63
    limit = 10**target.precision
    for row in doubtful.tolist():
        if not finite[row] or not (a.valid is None or a.valid[0 if len(a.valid) == 1 else row]):
            continue
        value = int(
            Decimal(repr(float(a.data[row])))
            .scaleb(target.scale)
            .quantize(Decimal(1), ROUND_HALF_UP, text_casts.CONTEXT)
        )
        if abs(value) >= limit:
            raise unfit(text_casts.java_double(a.data[row], DOUBLE), target, row)
        hi[row], data[row] = wide.split(value)
    if limit <= _SAFE:
        bad = first_bad(np.abs(data) >= limit, a.valid)
        if bad >= 0:
            raise unfit(text_casts.java_double(a.data[bad], DOUBLE), target, bad)
    return Column(target, data, a.valid, wide.narrow(data, hi))


def _to_timestamp(source: Type, target: Type) -> Step:
    if source.name == "DATE":
        return lambda a: Column(target, a.data * _DAY, a.valid)
    most = TIME_RANGE["TIMESTAMP"][1] // _SECOND + 1
    if source.is_integer:
        return lambda a: within_years(np.clip(a.data, -most, most) * _SECOND, a.valid, target)
    if source.name == "DECIMAL":

        def step(a: Column) -> Column:
            micros = rescaled(a, source.scale, decimal(38, 6), wide.DOWN)
            bad = -1 if micros.hi is None else first_bad(micros.hi != micros.data >> 63, a.valid)
            if bad >= 0:
                raise out_of_years(target, bad)
            return within_years(micros.data, a.valid, target)

        return step
    to_bigint: Callable[[Column], Column] = _from_fraction(DOUBLE, BIGINT)

    def step_of_doubles(a: Column) -> Column:
        micros = Column(DOUBLE, np.clip(a.data, -most, most) * _SECOND, a.valid)
        return within_years(to_bigint(micros).data, a.valid, target)

    return step_of_doubles


def _from_timestamp(target: Type) -> Step:
    if target.name == "DATE":
        return lambda a: Column(target, a.data // _DAY, a.valid)
    if target.is_integer:
        return lambda a: Column(target, _in_range(a.data // _SECOND, a.valid, target), a.valid)
    if target.name == "DECIMAL":
        return lambda a: rescaled(a, 6, target)
    return lambda a: Column(target, _single(a.data / _SECOND, target), a.valid)


def _from_interval(source: Type, target: Type) -> Step:
    """A number is in the last unit, seconds with their fraction; another interval is truncated to its last unit."""
    size = SIZES[(target if target.is_interval else source).units[-1]]

    def cut(a: Column) -> Int64s:
        whole: Int64s = np.sign(a.data) * (np.abs(a.data) // size)
        return whole

    if target.is_interval:
        return lambda a: Column(target, a.data if size == 1_000_000 else cut(a) * size, a.valid)
    if target.name != "DECIMAL":
        return lambda a: Column(target, _in_range(cut(a), a.valid, target), a.valid)
    if source.units[-1] == "SECOND":
        return lambda a: rescaled(a, 6, target)
    return lambda a: rescaled(Column(BIGINT, cut(a), a.valid), 0, target)


def _to_interval(source: Type, target: Type) -> Step:
    """A number is in the last unit; a fraction is rounded HALF_UP to months or microseconds."""
    size, scale = np.full(1, SIZES[target.units[-1]]), source.scale
    least, greatest = INTEGER_RANGE["INT" if target.name == "MONTHS" else "BIGINT"]

    def step(a: Column) -> Column:
        data, known = lane(a.data), ALL if a.valid is None or len(a.valid) != len(a) else a.valid
        hi, lo = np.empty(len(data), np.int64), np.empty(len(data), np.int64)
        high = wide.high(data, a.hi)
        bad = wide.ratio(high, data, _ZERO, size, _ZERO, _ONE, known, 0, scale, wide.HALF_UP, 38, hi, lo)
        if bad < 0:
            bad = first_bad((hi != lo >> 63) | (lo < least) | (lo > greatest), a.valid)
        if bad >= 0:
            raise unfit(text_casts.decimal_text(a, scale, bad), target, bad)
        return Column(target, lo, a.valid)

    return step


def _written(call: Call, args: Sequence[str]) -> str:
    return f"CAST({args[0]} AS {call.type})"


def _duckdb(call: Call, args: Sequence[str]) -> str | None:
    """SQL for DuckDB: from integers and decimals to types that hold them exactly, and from decimals to doubles."""
    source, target = call.args[0].type, call.type
    exact = source.is_integer or source.name in ("DECIMAL", "VOID") or source == target
    if not exact or not _never_fails(call) or target.name not in (*INTEGER_RANGE, "DECIMAL", "DOUBLE"):
        return None
    if target.name == "DOUBLE" and not source.is_integer:
        return None
    return f"CAST({args[0]} AS {target})"


declare(Function("cast", strict=_compute, total=_never_fails, written=_written, duckdb=_duckdb))
