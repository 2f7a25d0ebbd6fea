"""The settings of a job file, and its sources and sinks with the options that each needs.

Other options are passed to Spark unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

#: Options of a source that Freshet reads itself: which column says what a row does, and which one orders changes.
CHANGES, SEQUENCE = "changes", "sequence"
CHANGE_COLUMNS = ("_weight", "_change_type")


#: Returns what is wrong with a value, or None.
Check = Callable[[str], str | None]

MOST_SHARDS = 10_000


def _count(value: str) -> str | None:
    return None if value.isdigit() and int(value) >= 1 else "give a whole number, 1 or more"


AUTO = "auto"  # as many shards as the rows need


def shards(value: str) -> str | None:
    if value.lower() == AUTO:
        return None
    if not value.isdigit() or int(value) < 1:
        return f"give a whole number, 1 or more, or '{AUTO}'"
    return None if int(value) <= MOST_SHARDS else f"give at most {MOST_SHARDS:,}"


def _trigger(value: str) -> str | None:
    words = value.lower().split()
    units = ("millisecond", "second", "minute", "hour")
    timed = len(words) == 2 and words[0].isdigit() and words[1].rstrip("s") in units
    return None if timed or words == ["available", "now"] else "give 'available now', or a time as '2 seconds'"


def _one_of(*known: str) -> Check:
    return lambda value: None if value in known else f"give {' or '.join(map(repr, known))}"


def _boolean(value: str) -> str | None:
    return _one_of("true", "false")(value.lower())


def _any(value: str) -> str | None:
    return None if value else "give a value"


def master(value: str) -> str | None:
    known = r"local|local\[(\*|[1-9]\d*)(, *\d+)?\]|local-cluster\[.+\]|yarn|(spark|k8s)://.+"
    return None if re.fullmatch(known, value) else "give local[4], local[*], spark://host:port, yarn or k8s://..."


def _changes(value: str) -> str | None:
    named = f"name the column that says what a row does: {' or '.join(CHANGE_COLUMNS)}"
    return None if value in CHANGE_COLUMNS else named


@dataclass(frozen=True, slots=True)
class Format:
    """`needs`: alternative sets of required options. `checks`: a check for the value of an option. `package`: the
    package with which Spark must be started, and `settings`: how Spark must be configured for it."""

    needs: tuple[tuple[str, ...], ...] = ((),)
    checks: Mapping[str, Check] = field(default_factory=dict)
    files: bool = False
    package: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def wrong(self, options: Mapping[str, str]) -> str | None:
        given = {name.lower() for name in options}
        if not any(all(n.lower() in given for n in wanted) for wanted in self.needs):
            listed = ", or ".join(" and ".join(wanted) for wanted in self.needs)
            return f"needs {listed}; write OPTIONS ({self.needs[0][0]} '...')"
        for name, value in options.items():
            check = next((c for n, c in self.checks.items() if n.lower() == name.lower()), None)
            wrong = None if check is None else check(value)
            if wrong is not None:
                return f"has {name} {value!r}; {wrong}"
        return None


_ROWS = {CHANGES: _changes}  # of any source
_READ = _ROWS | {"maxFilesPerTrigger": _count}
_TEXT = _READ | {"header": _boolean, "sep": _any, "delimiter": _any}
_FILES = (("path",),)
#: Options of a sink that Freshet reads itself: in which form it writes changes, and by which columns of the view.
ENVELOPE, KEY = "envelope", "key"


def split_key(value: str | None) -> list[str]:
    return [name.strip() for name in (value or "").split(",") if name.strip()]


_SENT: dict[str, Check] = {ENVELOPE: _one_of("upsert", "debezium")}
_WRITTEN = Format(_FILES, {"files": _count, **_SENT}, files=True)
_SERVERS = "kafka.bootstrap.servers"
_KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}"
_DELTA = Format(
    _FILES, _ROWS, package="io.delta:delta-spark_{line}_2.13:VERSION",
    settings={
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
)  # fmt: skip

SOURCES: dict[str, Format] = {
    "parquet": Format(_FILES, _READ, files=True),
    "orc": Format(_FILES, _READ, files=True),
    "csv": Format(_FILES, _TEXT, files=True),
    "json": Format(_FILES, _READ, files=True),
    "tbl": Format(_FILES, _TEXT | {"trailing": _boolean}, files=True),
    "rate": Format(checks=_ROWS | {"rowsPerSecond": _count}),
    "kafka": Format(
        tuple((_SERVERS, topics) for topics in ("subscribe", "subscribePattern", "assign")), _ROWS, package=_KAFKA
    ),
    "delta": _DELTA,
}

SINKS: dict[str, Format] = {
    "materialized": Format((("path",), ("url", "table", "driver")), {"keep_versions": _count}),
    "console": Format(checks={"rows": _count}),
    "parquet": _WRITTEN,
    "orc": _WRITTEN,
    "csv": _WRITTEN,
    "json": _WRITTEN,
    "kafka": Format(((_SERVERS, "topic"),), _SENT, package=_KAFKA),
    "delta": replace(_DELTA, checks=_SENT),
}


#: The settings of SET, each with a check of its value.
SETTINGS: dict[str, Check] = {
    "shards": shards,
    "checkpoint": _any,
    "trigger": _trigger,
    "on_error": _one_of("stop", "quarantine"),
    "master": master,
    "packages": _any,
}
