"""What a job file may say: settings, and the sources and sinks with the options each needs.

Options that are not named here are handed to Spark as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: Options of a source that Freshet reads itself: which column says what a row does, and which one orders changes.
CHANGES, SEQUENCE = "changes", "sequence"
CHANGE_COLUMNS = ("_weight", "_change_type")


@dataclass(frozen=True, slots=True)
class Format:
    """`needs`: alternatives, one of which must be given whole. `package`: the one Spark must be started with, and
    `settings`: what Spark must be told for it."""

    needs: tuple[tuple[str, ...], ...] = ((),)
    files: bool = False
    package: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def wrong(self, options: Mapping[str, str]) -> str | None:
        given = {name.lower() for name in options}
        if not any(all(n.lower() in given for n in wanted) for wanted in self.needs):
            listed = ", or ".join(" and ".join(wanted) for wanted in self.needs)
            return f"needs {listed}; write OPTIONS ({self.needs[0][0]} '...')"
        changes = next((v for k, v in options.items() if k.lower() == CHANGES), None)
        if changes is not None and changes not in CHANGE_COLUMNS:
            return f"has changes {changes!r}; name the column that says what a row does: {' or '.join(CHANGE_COLUMNS)}"
        return None


_FILES = Format((("path",),), files=True)
_SERVERS = "kafka.bootstrap.servers"
_KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}"
_DELTA = Format(
    (("path",),), package="io.delta:delta-spark_{line}_2.13:VERSION",
    settings={
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
)  # fmt: skip

SOURCES: dict[str, Format] = {
    "parquet": _FILES,
    "orc": _FILES,
    "csv": _FILES,
    "json": _FILES,
    "tbl": _FILES,
    "rate": Format(),
    "kafka": Format(
        tuple((_SERVERS, topics) for topics in ("subscribe", "subscribePattern", "assign")), package=_KAFKA
    ),
    "delta": _DELTA,
}

SINKS: dict[str, Format] = {
    "materialized": Format((("path",), ("url", "table", "driver"))),
    "console": Format(),
    "parquet": _FILES,
    "orc": _FILES,
    "csv": _FILES,
    "json": _FILES,
    "kafka": Format(((_SERVERS, "topic"),), package=_KAFKA),
    "delta": _DELTA,
}


def _count(value: str) -> str | None:
    return None if value.isdigit() and int(value) >= 1 else "give a whole number, 1 or more"


def _trigger(value: str) -> str | None:
    words = value.lower().split()
    units = ("millisecond", "second", "minute", "hour")
    timed = len(words) == 2 and words[0].isdigit() and words[1].rstrip("s") in units
    return None if timed or words == ["available", "now"] else "give 'available now', or a time as '2 seconds'"


def _one_of(*known: str) -> Callable[[str], str | None]:
    return lambda value: None if value in known else f"give {' or '.join(map(repr, known))}"


def _any(value: str) -> str | None:
    return None if value else "give a value"


#: What SET takes, and what is wrong with a value.
SETTINGS: dict[str, Callable[[str], str | None]] = {
    "shards": _count,
    "checkpoint": _any,
    "trigger": _trigger,
    "on_error": _one_of("stop", "quarantine"),
    "master": _any,
    "packages": _any,
}
