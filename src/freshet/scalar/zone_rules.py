"""Time zones as tables of their transitions, so that whole columns of times are converted at once.

A zone is read from the system's database of time zones, or from the package `tzdata` (files of RFC 9636): its
transitions so far, and a rule for those of all years to come, which are computed up to the year 9999. Zones are named
as Java names them: regions, offsets such as +02:00 and UTC+2, and its short names.

Law, as in Java: a local time that occurs twice is the earlier of the two, with the offset before the transition; one
that does not occur is moved on by the length of the gap, which is the time with the offset before the transition, too.
"""

from __future__ import annotations

import re
import struct
import zoneinfo
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np

from freshet.state.arrays import Int64s

_SECOND = 1_000_000
_LAST_YEAR = 9999
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~._+-]*(?:/[A-Za-z0-9~._+-]+)*")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
_NO_REGIONS = ("posix", "right", "SystemV", "Factory", "posixrules", "localtime")  # files that Java has no zone of
_SHORT = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip


@dataclass(frozen=True)
class ZoneRules:
    """Offsets in seconds; offset i is valid before transition i, counted in UTC, and the last one after all of them.
    `local`: the local time from which on the offset after a transition counts."""

    transitions: Int64s
    offsets: Int64s
    local: Int64s

    def from_utc(self, micros: Int64s) -> Int64s:
        """The local time, as if it were in UTC."""
        return micros + self.offsets[np.searchsorted(self.transitions, micros // _SECOND, "right")] * _SECOND

    def to_utc(self, micros: Int64s) -> Int64s:
        """The moment at which it is that local time."""
        return micros - self.offsets[np.searchsorted(self.local, micros // _SECOND, "right")] * _SECOND


@lru_cache(maxsize=64)
def zone_rules(name: str) -> ZoneRules | None:
    """The rules of a zone; None if there is no such zone."""
    name = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name, count=1)  # forms that Spark completes
    name = re.sub(r"([+-])(\d\d):(\d)$", r"\1\2:0\3", name)
    name = _SHORT.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return _rules([], [0])
    match = _OFFSET.fullmatch(name)
    if match is not None:
        return _fixed(match, name)
    data = _file(name) if _REGION.fullmatch(name) else None
    return None if data is None else _read(data)


def _fixed(match: re.Match[str], name: str) -> ZoneRules | None:
    hours, minutes, seconds = (int(match[i] or 0) for i in (2, 3, 4))
    total = hours * 3600 + minutes * 60 + seconds
    colons = name.count(":")
    odd = (colons == 1 and match[4]) or (colons and len(match[2]) == 1) or (match[3] and len(match[2]) == 1)
    if total > 18 * 3600 or minutes > 59 or seconds > 59 or odd:
        return None
    return _rules([], [-total if match[1] == "-" else total])


def _rules(transitions: list[int], offsets: list[int]) -> ZoneRules:
    at, known = np.array(transitions, np.int64), np.array(offsets, np.int64)
    local = np.maximum.accumulate(at + np.maximum(known[:-1], known[1:])) if len(at) else at
    return ZoneRules(at, known, local)


def _file(name: str) -> bytes | None:
    parts = name.split("/")
    if parts[0] in _NO_REGIONS or "." in name:
        return None
    for root in zoneinfo.TZPATH:
        path = Path(root, *parts)
        if path.is_file():
            data = path.read_bytes()
            return data if data.startswith(b"TZif") else None
    try:
        found = resources.files("tzdata").joinpath("zoneinfo", *parts)
        return found.read_bytes() if found.is_file() else None
    except (ModuleNotFoundError, OSError):
        return None


def _read(data: bytes) -> ZoneRules:
    """The transitions in a file, with 64 bits each, and those that its rule says."""
    at = 44 + _length(data, 0, 4)  # after the block with 32 bits
    times, types = (_count(data, at, place) for place in (3, 4))
    begin = at + 44
    transitions = list(struct.unpack_from(f">{times}q", data, begin))
    which = data[begin + 8 * times : begin + 9 * times]
    kinds = [struct.unpack_from(">i", data, begin + 9 * times + 6 * i)[0] for i in range(types)]
    offsets = [kinds[0], *(kinds[i] for i in which)]
    rule = data[at + 44 + _length(data, at, 8) :].strip(b"\n").decode("ascii")
    return _rules(*_continued(transitions, offsets, rule))


def _count(data: bytes, at: int, place: int) -> int:
    return int(struct.unpack_from(">6I", data, at + 20)[place])


def _length(data: bytes, at: int, width: int) -> int:
    """The bytes of a block after its header, whose times have that many."""
    utc, standard, leaps, times, types, letters = struct.unpack_from(">6I", data, at + 20)
    return int(times * (width + 1) + types * 6 + letters + leaps * (width + 4) + standard + utc)


# Rules for the years to come --------------------------------------------------------------------------------------

_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)"
_TIME = r"[+-]?\d{1,3}(?::\d{2}){0,2}"
_DATE = rf"(M\d+\.\d+\.\d+|J?\d+)(?:/({_TIME}))?"
_RULE = re.compile(rf"{_NAME}({_TIME})(?:{_NAME}({_TIME})?,{_DATE},{_DATE})?")


def _continued(transitions: list[int], offsets: list[int], rule: str) -> tuple[list[int], list[int]]:
    """The transitions of a file, and after them those by its rule, such as CET-1CEST,M3.5.0,M10.5.0/3."""
    match = _RULE.fullmatch(rule)
    if match is None:
        return transitions, offsets
    standard = -_seconds(match[1])
    if match[3] is None:
        return transitions, offsets
    summer = standard + 3600 if match[2] is None else -_seconds(match[2])
    first = 1970 if not transitions else _year(transitions[-1])
    years = np.arange(first, _LAST_YEAR + 1)
    begins = _days(match[3], years) * 86_400 + _seconds(match[4] or "2") - standard
    ends = _days(match[5], years) * 86_400 + _seconds(match[6] or "2") - summer
    moments = np.concatenate([begins, ends])
    after = np.repeat([summer, standard], len(years))
    last = transitions[-1] if transitions else -(1 << 62)
    order = np.argsort(moments, kind="stable")
    order = order[moments[order] > last]
    return [*transitions, *moments[order].tolist()], [*offsets, *after[order].tolist()]


def _year(seconds: int) -> int:
    return int(np.int64(max(seconds, -62_135_596_800)).astype("M8[s]").astype("M8[Y]").astype(np.int64)) + 1970


def _seconds(text: str) -> int:
    hours, *rest = text.lstrip("+-").split(":")
    total = int(hours) * 3600 + sum(int(part) * unit for part, unit in zip(rest, (60, 1), strict=False))
    return -total if text.startswith("-") else total


def _days(date: str, years: Int64s) -> Int64s:
    """The days since 1970 of a date in each year: Mm.w.d is weekday d in week w of month m, the last one for w = 5;
    Jn is day n from 1 on, without leap days, and n day n from 0 on."""
    start: Int64s = (years - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)
    if date.startswith("J"):
        leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
        number = int(date[1:])
        counted: Int64s = start + number - 1 + (leap & (number > 59))
        return counted
    if not date.startswith("M"):
        return start + int(date)
    month, week, weekday = map(int, date[1:].split("."))
    months = (years - 1970) * 12 + month - 1
    first, following = (m.astype("M8[M]").astype("M8[D]").astype(np.int64) for m in (months, months + 1))
    day: Int64s = first + (weekday - first - 4) % 7 + 7 * (week - 1)
    made: Int64s = np.where(day >= following, day - 7, day)
    return made
