"""The stream whose classes are archived (`class_archive.py`): a process of its own, because Java writes the archive at
its end."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from freshet.spark.maintain import maintain
from freshet.spark.materialize import materialize
from freshet.spark.session import session
from freshet.spark.snapshot import snapshot

_DDL = "CREATE TABLE k (id BIGINT PRIMARY KEY, name STRING); CREATE TABLE n (id BIGINT, amount DECIMAL(12,2), at DATE)"
_VIEWS = {
    "sums": "SELECT name, COUNT(*) AS c, SUM(amount) AS s FROM k JOIN n ON k.id = n.id GROUP BY name",
    "rows": "SELECT k.id, amount, at FROM k JOIN n ON k.id = n.id",
}


def _run(folder: Path, draft: str) -> None:
    """A stream like those that people begin with, up to the end of Java's process, which writes the archive."""
    flags = f"-XX:ArchiveClassesAtExit={draft} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session(
        "local[2]", shards=1, settings={"spark.driver.extraJavaOptions": flags, "spark.ui.enabled": "false"}
    )
    ids = pa.array([1, 2])
    days = pa.array([0, 1], pa.date32())
    amounts = pa.array([Decimal(1), Decimal(2)], pa.decimal128(12, 2))
    rows = {
        "k": pa.table({"id": ids, "name": ["a", "b"], "_weight": ids}),
        "n": pa.table({"id": ids, "amount": amounts, "at": days, "_weight": ids}),
    }
    streams = {}
    for name, table in rows.items():
        (folder / name).mkdir()
        pq.write_table(table.slice(0, 1), folder / name / "0.parquet")
        schema = spark.read.parquet(str(folder / name)).schema
        streams[name] = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(str(folder / name))

    def keep(batch: Any, number: int) -> None:
        batch.persist()
        batch.write.mode("overwrite").parquet(str(folder / "out" / str(number)))
        batch.groupBy("_view").sum("_weight").collect()
        batch.unpersist()

    changes = maintain(spark, _VIEWS, streams, schema=_DDL, shards=1, checkpoint=str(folder / "first"))
    writer = changes.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "first"))
    writer.trigger(availableNow=True).start().awaitTermination()
    snapshot(spark, str(folder / "first"), "sums").toArrow()
    changes = maintain(spark, _VIEWS, streams, schema=_DDL, shards=1, checkpoint=str(folder / "second"))
    copies = {name: str(folder / "copies" / name) for name in _VIEWS}
    query = materialize(changes, copies, checkpoint=str(folder / "second"), trigger={"availableNow": True})
    query.awaitTermination()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    _run(Path(sys.argv[1]), sys.argv[2])
