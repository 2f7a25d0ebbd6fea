"""Translates expressions into steps over lanes (state/lane_code), if these steps can compute them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Call, Expression, Literal, Reference
from freshet.scalar.functions.registry import comparison_of
from freshet.scalar.types import INTEGER_RANGE, Type
from freshet.state import wide
from freshet.state.arrays import Int64s
from freshet.state.lane_code import (
    ADD,
    AND,
    AT_MOST,
    CODE_WIDTH,
    CONSTANT,
    EQUAL,
    FIRST,
    FIT,
    IS_NULL,
    LESS,
    LOAD,
    MULTIPLY,
    NEGATE,
    NOT,
    OR,
    SUBTRACT,
)

#: The position of a column: its first lane, its null lane (-1: never NULL), and the bit in it.
Where = Callable[[Reference], tuple[int, int, int]]

_BIGGEST = (1 << 127) - 1
_WHOLE = ("BOOLEAN", "DATE", "TIMESTAMP", "MONTHS", "MICROS")  # further types that are stored as integers
_ARITHMETIC = {"add": ADD, "subtract": SUBTRACT, "multiply": MULTIPLY}
_MOST_SCALED = 18  # digits by which a value in one lane is scaled up


class _BeyondError(Exception):
    """An expression that these steps cannot compute."""


class LaneCode:
    """Steps that each fill one register; equal expressions share a register. `id_of`: the id of a text, which must stay
    its id."""

    def __init__(self, where: Where, id_of: Callable[[str], int]) -> None:
        self._where, self._id_of = where, id_of
        self._rows: list[list[int]] = []
        self._known: dict[Expression, int] = {}

    def add(self, expressions: Sequence[Expression]) -> list[int] | None:
        """The registers of expressions; None if one of them cannot be translated, which leaves the code unchanged."""
        rows, known = len(self._rows), len(self._known)
        try:
            return [self._register(e) for e in expressions]
        except _BeyondError:
            del self._rows[rows:]
            while len(self._known) > known:
                self._known.popitem()
            return None

    def all_of(self, registers: list[int]) -> int:
        """The register for the conjunction of these."""
        return self._chain(AND, registers)

    def __len__(self) -> int:
        return len(self._rows)

    def array(self) -> Int64s:
        """The steps so far; step i fills register i."""
        return np.array(self._rows, np.int64).reshape(-1, CODE_WIDTH)

    # Steps ----------------------------------------------------------------------------------------------------

    def _step(self, op: int, a: int = 0, b: int = 0, limit: int = 0, integer: int = 0, x: int = 0) -> int:
        high, low = wide.split(limit)
        self._rows.append([op, len(self._rows), a, b, low, high, integer, x])
        return len(self._rows) - 1

    def _register(self, e: Expression) -> int:
        register = self._known.get(e)
        if register is None:
            register = self._known[e] = self._made(e)
        return register

    def _made(self, e: Expression) -> int:
        if isinstance(e, Reference):
            lane, null_lane, bit = self._where(e)
            return self._step(LOAD, lane, null_lane, integer=e.type.lanes, x=bit)
        if isinstance(e, Literal):
            if e.value is None or (isinstance(e.value, int) and _is_whole(e.type) and abs(e.value) <= _BIGGEST):
                return self._step(CONSTANT, a=int(e.value is None), limit=int(e.value or 0))
            raise _BeyondError
        if not isinstance(e, Call):
            raise _BeyondError
        if e.name in _ARITHMETIC:
            return self._arithmetic(e)
        operator = comparison_of(e)
        if operator is not None:
            return self._comparison(e, operator)
        if e.name in ("and", "or"):
            return self._chain(AND if e.name == "and" else OR, [self._register(a) for a in e.args])
        if e.name == "not":
            return self._step(NOT, self._register(e.args[0]))
        if e.name in ("is_null", "is_not_null"):
            is_null = self._step(IS_NULL, self._register(e.args[0]))
            return is_null if e.name == "is_null" else self._step(NOT, is_null)
        if e.name == "coalesce" and all(a.type == e.type for a in e.args):
            return self._chain(FIRST, [self._register(a) for a in e.args])
        if e.name == "cast":
            return self._cast(e)
        if e.name == "negate" and _is_whole(e.type):
            return self._step(NEGATE, self._register(e.args[0]), **_limit(e.type))
        raise _BeyondError

    def _chain(self, op: int, registers: list[int]) -> int:
        result = registers[0]
        for other in registers[1:]:
            result = self._step(op, result, other)
        return result

    def _arithmetic(self, e: Call) -> int:
        x, y = e.args
        if not all(t.is_integer or t.name == "DECIMAL" for t in (x.type, y.type, e.type)):
            raise _BeyondError
        a, b, op = self._register(x), self._register(y), _ARITHMETIC[e.name]
        if e.name == "multiply":
            if x.type.scale + y.type.scale != e.type.scale:
                raise _BeyondError
        else:
            a, b = self._scaled(a, e.type.scale - x.type.scale), self._scaled(b, e.type.scale - y.type.scale)
        return self._step(op, a, b, **_limit(e.type))

    def _scaled(self, register: int, digits: int) -> int:
        if digits == 0:
            return register
        if not 0 < digits <= _MOST_SCALED:
            raise _BeyondError
        power = self._step(CONSTANT, limit=10**digits)
        return self._step(MULTIPLY, register, power, _BIGGEST)

    def _comparison(self, e: Call, operator: ComparisonOperator) -> int:
        x, y = e.args
        numbers = all(t.is_integer or t.name == "DECIMAL" for t in (x.type, y.type))
        same = x.type.scale == y.type.scale if numbers else x.type.name == y.type.name and x.type.name in _WHOLE
        if same:
            a, b = self._register(x), self._register(y)
        elif not operator.is_order and x.type == y.type and x.type.name == "STRING":
            a, b = self._text(x), self._text(y)
        else:
            raise _BeyondError
        if not operator.is_order:
            equal = self._step(EQUAL, a, b)
            return self._step(NOT, equal) if operator is ComparisonOperator.UNEQUAL else equal
        if not operator.is_upward:
            a, b = b, a
        return self._step(LESS if operator.is_strict else AT_MOST, a, b)

    def _text(self, e: Expression) -> int:
        if isinstance(e, Literal) and isinstance(e.value, str):
            return self._step(CONSTANT, limit=self._id_of(e.value))
        if isinstance(e, Reference):
            return self._register(e)
        raise _BeyondError

    def _cast(self, e: Call) -> int:
        source, target = e.args[0].type, e.type
        if not all(t.is_integer or t.name == "DECIMAL" for t in (source, target)):
            raise _BeyondError
        if target.is_integer and source.scale:
            raise _BeyondError
        scaled = self._scaled(self._register(e.args[0]), target.scale - source.scale)
        return self._step(FIT, scaled, **_limit(target))


def _is_whole(type: Type) -> bool:
    return type.is_integer or type.name == "DECIMAL" or type.name in _WHOLE


def _limit(type: Type) -> dict[str, int]:
    if type.name == "DECIMAL":
        return {"limit": 10**type.precision - 1}
    if type.is_integer:
        return {"limit": INTEGER_RANGE[type.name][1], "integer": 1}
    raise _BeyondError
