"""Parameter values, passed together with a text for its `?` or `:name` placeholders.

Law: a value means the same as the literal that would be written for it: 7 is an INT, 2**40 a BIGINT, Decimal("1.50") a
DECIMAL(3,2), a float a DOUBLE. So a text with parameters means what the same text with literals means, and no part of a
value is ever read as SQL.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from freshet.errors import SqlError, brief
from freshet.scalar import types
from freshet.scalar.expression import FALSE, NULL, TRUE, Literal
from freshet.scalar.numpy_values import of_numpy

ParameterValues = Sequence[Any] | Mapping[str, Any]

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_REMEDY = "give None, a bool, number, text, bytes, date, datetime or timedelta"


def literal_of(value: Any) -> Literal:
    """The literal for a Python value. Raises SqlError if no SQL type holds it."""
    if isinstance(value, np.generic):
        try:
            value = of_numpy(value)
        except ValueError as e:
            raise SqlError(f"{e}; {_REMEDY}") from None
    if value is None:
        return NULL
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return _whole(int(value))
    if isinstance(value, float):
        return Literal(types.DOUBLE, float(value))
    if isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise SqlError(f"{brief(value)} has a lone surrogate, half of a character; give the whole character")
        return Literal(types.STRING, str(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Literal(types.BINARY, bytes(value))
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, dt.datetime):
        return Literal(types.TIMESTAMP, _moment(value))
    if isinstance(value, dt.date):
        return Literal(types.DATE, value.toordinal() - _EPOCH.toordinal())
    if isinstance(value, dt.timedelta):
        micros = value // _MICROSECOND
        if not -(2**63) <= micros < 2**63:
            raise SqlError(f"{brief(value)} is longer than an INTERVAL can be; give at most 292,271 years")
        return Literal(types.MICROS, micros)
    raise SqlError(f"{brief(value)} is of type {type(value).__name__}, which no SQL type holds; {_REMEDY}")


def _moment(value: dt.datetime) -> int:
    if value != value:  # the NaT of pandas
        raise SqlError(f"{brief(value)} is not a time; {_REMEDY}")
    try:
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        raise SqlError(f"{value} is outside the years 1 to 9999 in UTC; give a time within") from None
    return int((utc - _EPOCH) // _MICROSECOND)


def _whole(value: int) -> Literal:
    for kind in (types.INT, types.BIGINT):
        least, greatest = types.INTEGER_RANGE[kind.name]
        if least <= value <= greatest:
            return Literal(kind, value, written=True)
    return _decimal(Decimal(value))


def _decimal(value: Decimal) -> Literal:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise SqlError(f"{value} is not a DECIMAL; give a float for a DOUBLE")
    if exponent > 0:
        digits, exponent = (*digits, *((0,) * min(exponent, 39))), 0
    precision = max(len(digits), -exponent, 1)
    if precision > 38:
        raise SqlError(f"{brief(value)} has {precision} digits; a DECIMAL has up to 38")
    unscaled = int("".join(map(str, digits)))
    return Literal(types.decimal(precision, -exponent), -unscaled if sign else unscaled)


def value_for(given: ParameterValues | None, name: str, number: int) -> Literal:
    """The value of a parameter: of `:name`, or of the `?` with that number, from 0."""
    if name:
        if not isinstance(given, Mapping):
            raise SqlError(f":{name} has no value; give one by name, as in execute(sql, {{{name!r}: 1}})")
        if name not in given:
            known = ", ".join(map(str, given)) or "none"
            raise SqlError(f":{name} has no value; the values given are {known}")
        return literal_of(given[name])
    if given is None or isinstance(given, Mapping):
        raise SqlError("? has no value; give one for each in order, as in execute(sql, [1])")
    return literal_of(given[number])


def check_given(given: Any, questions: int, names: set[str]) -> None:
    """Refuses values that do not match the parameters of a text in number or name."""
    if given is None:
        return
    if isinstance(given, Mapping):
        unknown = [str(name) for name in given if name not in names]
        if unknown:
            known = ", ".join(f":{name}" for name in sorted(names)) or "no names"
            raise SqlError(f"the text has no :{unknown[0]}; it has {known}")
    elif isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise SqlError(f"parameters are {brief(given)}; give a list of values for ?, or a dict of them for :name")
    elif len(given) != questions:
        what = "value" if len(given) == 1 else "values"
        raise SqlError(f"{len(given)} {what} for {questions} ? of the text; give one for each")
