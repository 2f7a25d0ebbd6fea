"""Time zones, next to Python's own reader of the same database."""

from __future__ import annotations

import random
import zoneinfo
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import freshet
from freshet.scalar import zone_rules as module
from freshet.scalar.zone_rules import zone_rules

ZONES = sorted(z for z in zoneinfo.available_timezones() if z not in ("Factory", "localtime"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moments(zone: str, rng: random.Random) -> list[int]:
    """Seconds of any year, and around transitions."""
    rules = zone_rules(zone)
    assert rules is not None
    found = [rng.randrange(-60_000_000_000, 250_000_000_000) for _ in range(5)]
    found += [rng.randrange(-3_000_000_000, 6_000_000_000) for _ in range(15)]
    known = [t for t in rules.transitions.tolist() if abs(t) < 60_000_000_000]
    for t in rng.sample(known, min(8, len(known))):
        at = int(np.searchsorted(rules.transitions, t))
        offsets = (0, int(rules.offsets[at]), int(rules.offsets[at + 1]))
        found += [t + offset + near for offset in offsets for near in (-1, 0, rng.randrange(-4000, 4000))]
    return found


def of_python(zone: str, seconds: list[int]) -> tuple[list[int], list[int]]:
    known = zoneinfo.ZoneInfo(zone)
    utc = [EPOCH + timedelta(seconds=s) for s in seconds]
    local = [(t.astimezone(known).replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1) for t in utc]
    back = [(t.replace(tzinfo=known).astimezone(UTC) - EPOCH) // timedelta(seconds=1) for t in utc]
    return local, back


@pytest.mark.parametrize("part", range(4))
def test_every_zone_is_as_python_reads_it(part: int) -> None:
    rng = random.Random(part)
    for zone in ZONES[part::4]:
        rules = zone_rules(zone)
        assert rules is not None, zone
        seconds = moments(zone, rng)
        local, back = of_python(zone, seconds)
        micros = np.array(seconds) * 1_000_000 + 999_999
        assert (rules.from_utc(micros) // 1_000_000).tolist() == local, zone
        assert (rules.to_utc(micros) // 1_000_000).tolist() == back, zone


def test_zones_without_the_systems_database(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tzdata")
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    zone_rules.cache_clear()
    try:
        rules = zone_rules("Europe/Berlin")
        assert rules is not None
        assert rules.from_utc(np.array([1_700_000_000_000_000])).tolist() == [1_700_003_600_000_000]
    finally:
        zone_rules.cache_clear()


@pytest.mark.parametrize("rule", ["AAA3", "<+03>-3", "EST5EDT,M3.2.0,M11.1.0", "IST-2IDT,M3.4.4/26,M10.5.0",
                                  "AAA-1BBB,J60/0,J300/25", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0"])  # fmt: skip
def test_rules_for_the_years_to_come(rule: str) -> None:
    """Next to Python's: a file of a zone that has nothing but the rule."""
    import io
    import struct

    header = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, 0, 1, 1)
    block = struct.pack(">iBB", 0, 0, 0) + b"\0"
    data = header + block + header + block + b"\n" + rule.encode() + b"\n"
    rules, known = module._read(data), zoneinfo.ZoneInfo.from_file(io.BytesIO(data))
    rng = random.Random(rule)
    seconds = [rng.randrange(86_400 * 400, 200_000_000_000) for _ in range(300)]
    if len(rules.transitions):
        seconds += [
            t + near for t in rng.sample(rules.transitions[2:].tolist(), 60) for near in (-3601, -1, 0, 1, 5400)
        ]
        seconds = [s for s in seconds if 86_400 * 400 < s < 200_000_000_000]
        micros = np.array(seconds) * 1_000_000
        utc = [EPOCH + timedelta(seconds=s) for s in seconds]
        local = [(t.astimezone(known).replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1) for t in utc]
        assert (rules.from_utc(micros) // 1_000_000).tolist() == local


@pytest.mark.parametrize(
    "name", ["Mars/Venus", "", "utc", "gmt", "+1:5:3", "+18:01", "-19", "1", "../../etc/passwd", "posix/UTC", "Factory",
             "Europe/Berlin/", "/etc/localtime", "UTC+2x"]
)  # fmt: skip
def test_what_is_no_zone(name: str) -> None:
    assert zone_rules(name) is None
    with pytest.raises(freshet.SqlError, match="no time zone"):
        freshet.connect().query(f"SELECT from_utc_timestamp(TIMESTAMP '2024-01-01 00:00:00', '{name}')")


def test_casts_to_a_timestamp_without_a_zone() -> None:
    db = freshet.connect()
    text = "2024-07-01 12:00:00 Europe/Berlin"
    db.execute("CREATE TABLE t (s STRING, ts TIMESTAMP_NTZ)")
    view = db.create_view("v", "SELECT s, CAST(s AS TIMESTAMP_NTZ) AS n, CAST(s AS TIMESTAMP) AS t FROM t")
    db.apply({"t": [(text, None), ("2024-07-01 12:00:00", None)]})
    noon = datetime(2024, 7, 1, 12)
    assert {row["s"]: (row["n"], row["t"]) for row in view.to_dicts()} == {
        text: (noon, datetime(2024, 7, 1, 10)), "2024-07-01 12:00:00": (noon, noon),
    }  # fmt: skip
    made = "TRY_CAST(s AS TIMESTAMP_NTZ) AS b, TRY_CAST('x' AS TIMESTAMP_NTZ) AS c"
    asked = f"SELECT TIMESTAMP_NTZ '{text}' AS a, {made} FROM t"
    assert db.query(asked).to_pylist() == [{"a": noon, "b": noon, "c": None}] * 2
    with pytest.raises(freshet.ChangeError, match="'x' is not a TIMESTAMP"):
        db.apply({"t": [("x", None)]})


def test_zones_in_a_column() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP, zone STRING)")
    view = db.create_view("v", "SELECT id, from_utc_timestamp(ts, zone) AS here FROM t")
    noon = datetime(2024, 7, 1, 12)
    db.apply({"t": [(1, noon, "Asia/Tokyo"), (2, noon, "Europe/Berlin"), (3, None, "Nowhere"), (4, noon, None)]})
    assert {row["id"]: row["here"] for row in view.to_dicts()} == {
        1: datetime(2024, 7, 1, 21), 2: datetime(2024, 7, 1, 14), 3: None, 4: None,
    }  # fmt: skip
    with pytest.raises(freshet.ChangeError, match="no time zone 'Nowhere'"):
        db.apply({"t": [(5, noon, "Nowhere")]})
    with pytest.raises(freshet.ChangeError, match="outside the years 1 to 9999"):
        db.apply({"t": [(5, "9999-12-31 23:00:00", "Asia/Tokyo")]})
    assert view.count() == 4
