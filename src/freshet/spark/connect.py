"""Spark Connect: a session whose Spark is a server, which this process reaches by messages alone.

Law: files of checkpoints and copies are written by this process, and by processes next to the server. So a folder must
be the same one, at the same path, for both: that is checked before a query starts.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from freshet.errors import PlanError, StateError


def is_remote(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def shared_path(target: str) -> str:
    """The path of a folder that the server has too; PlanError if it cannot be one."""
    parts = urlsplit(target)
    if parts.scheme not in ("", "file") or not os.path.isabs(parts.path):
        remedy = "give the absolute path of a folder that this process and the server share"
        raise PlanError(f"{target} cannot be reached over Spark Connect; {remedy}")
    return parts.path


def check_shared(spark: SparkSession, target: str) -> None:
    """Refuses a folder that the server does not see."""
    if not is_remote(spark):
        return
    folder = Path(shared_path(target))
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f"shared-{uuid.uuid4().hex}"
    mark.touch()
    try:
        spark.read.text(f"file://{mark}").collect()
    except AnalysisException:
        raise StateError(
            f"Spark's server does not see {target} as this process does; give a folder that both share, at one path"
        ) from None
    finally:
        mark.unlink()


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """The id of the streaming query whose micro-batch is being written."""
    if not is_remote(spark):
        return str(spark.sparkContext.getLocalProperty("sql.streaming.queryId") or "")
    return str(json.loads((Path(shared_path(checkpoint)) / "metadata").read_text())["id"])


def streams_read(df: DataFrame) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The format and the options of each stream that a DataFrame of Spark Connect reads."""
    yield from _reads(df._plan.to_proto(df.sparkSession._client))  # type: ignore[operator, attr-defined]


def _reads(message: Any) -> Iterator[tuple[str, Mapping[str, str]]]:
    if message.DESCRIPTOR.full_name == "spark.connect.Read" and message.is_streaming:
        if message.HasField("named_table"):
            yield "table", {"table": message.named_table.unparsed_identifier}
        else:
            source = message.data_source
            yield source.format, {**source.options, **({"path": source.paths[0]} if source.paths else {})}
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if not hasattr(value, "DESCRIPTOR") else (value,):
            yield from _reads(each)
