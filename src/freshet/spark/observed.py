"""Metrics of each shard for a micro-batch, in the progress of the query.

A shard emits them as a separate row among its blocks. After the last level these rows are collected as observed
metrics, which Spark adds to the progress of the query, and removed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, functions

#: The name of the rows of metrics among blocks.
OBSERVED = "observed"

_PREFIX = "freshet-"
_FIELDS = (
    "level INT, shard INT, version BIGINT, rows BIGINT, counters BIGINT, stored BIGINT, state_bytes BIGINT, "
    "open_seconds DOUBLE, engine_seconds DOUBLE, log_seconds DOUBLE, views MAP<STRING, BIGINT>, late BIGINT"
)
_HELP = {
    "rows": "Changes that the shard took in.",
    "counters": "Counters of join trees that the changes moved.",
    "stored": "Rows that the shard stores.",
    "state_bytes": "Bytes of the shard's state.",
    "open_seconds": "Time to open the state.",
    "engine_seconds": "Time to apply the changes.",
    "log_seconds": "Time to write the log.",
    "late": "Rows that came too late, and were dropped.",
}


@dataclass(frozen=True, slots=True)
class Observed:
    """One shard's micro-batch: changes taken in, counters moved, rows stored and the bytes of all its state, seconds;
    of each view the rows of its delta that came from here; and late rows that were dropped."""

    level: int
    shard: int
    version: int
    rows: int
    counters: int
    stored: int
    state_bytes: int
    open_seconds: float
    engine_seconds: float
    log_seconds: float
    views: dict[str, int]
    late: int

    def payload(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def observing(blocks: DataFrame) -> DataFrame:
    """The blocks without the rows of metrics, which are added to the progress of the query. The name is unique, because
    a query may have several such streams."""
    is_metric = functions.col("stream") == OBSERVED
    content = functions.when(is_metric, functions.from_json(functions.col("payload").cast("string"), _FIELDS))
    return blocks.observe(_PREFIX + uuid.uuid4().hex[:8], functions.collect_list(content).alias("shards")).where(
        ~is_metric
    )


def metrics(progress: Any) -> list[dict[str, Any]]:
    """Read what shards did from the progress of a query over `maintain`.

    Parameters
    ----------
    progress
        One of `query.recentProgress`, `query.lastProgress`, or `event.progress` of a listener.

    Returns
    -------
    list of dict
        For each level and shard that had changes: `level`, `shard`, `version`, `rows` (changes taken in), `counters`
        (of join trees, moved), `stored` (rows), `state_bytes`, `open_seconds`, `engine_seconds`, `log_seconds`,
        `skew` (its rows over the mean of its level's shards), `views`, rows of the delta by view, and `late`, rows of
        tables with `lateness` that came too late and were dropped. Empty where the micro-batch had no changes.

    Examples
    --------
    With the query of `maintain`:

    >>> sum(shard["rows"] for shard in metrics(query.recentProgress[0]) if shard["level"] == 0)
    2
    """
    observed = {} if progress is None else progress.observedMetrics
    found: list[dict[str, Any]] = []
    for name in sorted(name for name in observed if name.startswith(_PREFIX)):
        # A sink may compute a micro-batch twice.
        shards = {(shard["level"], shard["shard"]): dict(shard) for shard in observed[name]["shards"]}
        for shard in shards.values():
            level = [other["rows"] for other in shards.values() if other["level"] == shard["level"]]
            shard["skew"] = round(shard["rows"] * len(level) / sum(level), 3) if sum(level) else 1.0
        found += (shards[place] for place in sorted(shards))
    return found


def prometheus(progress: Any) -> str:
    """Write what shards did as a text that Prometheus reads.

    Parameters
    ----------
    progress
        As `metrics` takes it.

    Returns
    -------
    str
        Gauges of the last micro-batch, labelled by level, shard and view.

    Examples
    --------
    With the query of `maintain`:

    >>> 'freshet_rows{level="0",shard="' in prometheus(query.recentProgress[0])
    True
    """
    return "".join(line + "\n" for line in _lines(metrics(progress)))


def _lines(shards: list[dict[str, Any]]) -> Iterator[str]:
    for name, help_text in (*_HELP.items(), ("skew", "Changes over the mean of the level's shards.")):
        yield f"# HELP freshet_{name} {help_text}"
        yield f"# TYPE freshet_{name} gauge"
        for shard in shards:
            yield f"freshet_{name}{{{_place(shard)}}} {shard[name]}"
    yield "# HELP freshet_delta_rows Rows of a view's delta that came from the shard."
    yield "# TYPE freshet_delta_rows gauge"
    for shard in shards:
        for view, rows in sorted(shard["views"].items()):
            yield f'freshet_delta_rows{{{_place(shard)},view="{_escaped(view)}"}} {rows}'


def _place(shard: dict[str, Any]) -> str:
    return f'level="{shard["level"]}",shard="{shard["shard"]}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
