"""Conversions between time zones, and timestamps without one. Within the session everything is UTC, so a timestamp
without a zone is a TIMESTAMP: its local time, as if in UTC."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from freshet.errors import EvaluationError, SqlError, brief
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.attempts import attempt
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.datetime import WHEN
from freshet.scalar.functions.registry import Function, Step, declare, refuse
from freshet.scalar.functions.rows import both, flags, longest, text_of, within_years
from freshet.scalar.functions.text_calls import as_text, in_python, literal
from freshet.scalar.functions.text_casts import PLAIN_TIMESTAMP, read_timestamp_ntz, reader
from freshet.scalar.types import STRING, TIMESTAMP
from freshet.scalar.zone_rules import ZoneRules, zone_rules
from freshet.state.arrays import Int64s

_REMEDY = "write a region such as 'Europe/Berlin', or an offset such as '+02:00'"


def _zone(argument: Expression) -> Expression:
    """A name of a zone; a literal that is none is an error of the query."""
    zone = fold(as_text(argument))
    name = literal(zone)
    if name is not None and zone_rules(str(name)) is None:
        raise SqlError(f"no time zone {brief(str(name))}; {_REMEDY}")
    return zone


def _resolve_shift(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2 or args[0].type.name not in WHEN:
        raise refuse(name, args)
    return Call(TIMESTAMP, name, (cast(args[0], TIMESTAMP), _zone(args[1])))


def _resolve_convert(name: str, args: tuple[Expression, ...]) -> Expression:
    """From the first zone to the second; from that of the session, UTC, if only one is given."""
    if not 2 <= len(args) <= 3 or args[-1].type.name not in WHEN:
        raise refuse(name, args)
    time = without_zone(args[-1])
    if len(args) == 3:
        time = Call(TIMESTAMP, "to_utc_timestamp", (time, _zone(args[0])))
    return Call(TIMESTAMP, "from_utc_timestamp", (time, _zone(args[-2])))


def _shifted(convert: Callable[[ZoneRules, Int64s], Int64s]) -> Callable[[Call], Step]:
    def step(times: Column, zones: Column) -> Column:
        valid, rows = both(times.valid, zones.valid), longest(times, zones)
        if len(zones) == 1:
            moved = convert(_known(zones, 0, 0), times.data) if valid is None or valid.any() else times.data
            return within_years(moved, valid, TIMESTAMP)
        data = np.broadcast_to(times.data, rows).copy()
        names = pa.array(text_of(zones)).dictionary_encode()
        which = names.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for number in range(len(names.dictionary)):
            own = (which == number) & (True if valid is None else valid)
            if own.any():
                data[own] = convert(_known(Column(STRING, names.dictionary), number, int(own.argmax())), data[own])
        return within_years(data, valid, TIMESTAMP)

    return lambda _: step


def _known(zones: Column, place: int, row: int) -> ZoneRules:
    name = str(text_of(zones)[place].as_py())
    rules = zone_rules(name)
    if rules is None:
        raise EvaluationError(f"no time zone {brief(name)}; {_REMEDY}", row)
    return rules


# Timestamps without a zone ------------------------------------------------------------------------------------------


def without_zone(time: Expression) -> Expression:
    """A value as TIMESTAMP_NTZ: a text is read without regard to the zone that it may have."""
    if time.type.name != "STRING":
        return cast(time, TIMESTAMP)
    return fold(Call(TIMESTAMP, "to_timestamp_ntz", (as_text(time),)))


def _resolve_ntz(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1 or args[0].type.name not in WHEN:
        raise refuse(name, args)
    return without_zone(args[0])


def _resolve_try_ntz(name: str, args: tuple[Expression, ...]) -> Expression:
    """TRY_CAST of a text."""
    if len(args) != 1 or args[0].type.name != "STRING":
        raise refuse(name, args)
    return fold(attempt(Call(TIMESTAMP, "to_timestamp_ntz", (as_text(args[0]),))))


def _ntz(call: Call) -> Step:
    plain, general = reader(TIMESTAMP), in_python(TIMESTAMP, _read)

    def step(a: Column) -> Column:
        text = text_of(a)
        return plain(a) if bool(flags(pc.match_substring_regex(text, PLAIN_TIMESTAMP)).all()) else general(a)

    return step


def _read(text: str) -> int:
    found = read_timestamp_ntz(text)
    if found is None:
        raise EvaluationError(f"{brief(text)} is not a TIMESTAMP; write it as in '2024-02-29 13:14:15'", None)
    return found


declare(
    Function(
        "from_utc_timestamp", "a TIMESTAMP and a time zone", _resolve_shift, _shifted(ZoneRules.from_utc),
        parsed={exp.AtTimeZone: ("this", "zone")},
    ),
    Function(
        "to_utc_timestamp", "a TIMESTAMP and a time zone", _resolve_shift, _shifted(ZoneRules.to_utc),
        parsed={exp.FromTimeZone: ("this", "zone")},
    ),
    Function(
        "convert_timezone", "a time zone, optionally another one, and a TIMESTAMP_NTZ", _resolve_convert,
        parsed={exp.ConvertTimezone: ("source_tz", "target_tz", "timestamp")},
    ),
    Function("to_timestamp_ntz", "a text, a DATE or a TIMESTAMP", _resolve_ntz, _ntz),
    Function("try_to_timestamp_ntz", "a text", _resolve_try_ntz, spelled=False),
)  # fmt: skip
