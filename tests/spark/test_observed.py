"""What shards did is in the progress of the query, whatever reads its rows, and as a text for Prometheus."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from freshet.spark import maintain, metrics, prometheus
from tests.spark.cases import DDL, SCHEMAS, arrow
from tests.spark.streams import batch, read_files, run, view_part, write_files

VIEWS = {"plain": "SELECT id, c FROM t", "n": "SELECT c, COUNT(*) AS n FROM t GROUP BY c"}
SIZES = {"t": 2e6}  # for two shards


def test_observed(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    rows: list[tuple[object, ...]] = [(i, 0, i % 5, i, 1) for i in range(40)]
    steps = [{"t": arrow("t", rows[:30])}, {"t": arrow("t", rows[30:])}]
    write_files(tmp_path / "in", SCHEMAS, steps)
    streams = read_files(spark, tmp_path / "in", ["t"])
    changes = maintain(spark, VIEWS, streams, schema=DDL, sizes=SIZES, checkpoint=str(tmp_path / "state"))
    planned = changes._jdf.queryExecution().toString()
    assert "encode table t(" in planned and "decode plain n(" in planned
    query = run(changes, tmp_path / "out", tmp_path / "state")
    progress = [p for p in query.recentProgress if p.numInputRows]
    for number, (step, progress_of_step) in enumerate(zip(steps, progress, strict=True)):
        shards = metrics(progress_of_step)
        assert {s["version"] for s in shards} == {number + 1}
        assert sum(s["rows"] for s in shards if s["level"] == 0) >= step["t"].num_rows
        for view in VIEWS:
            given = view_part(batch(tmp_path / "out", number), view).num_rows
            assert sum(s["views"].get(view, 0) for s in shards) == given
        assert all(s["stored"] and s["state_bytes"] and s["engine_seconds"] > 0 for s in shards)
        for level in {s["level"] for s in shards}:
            skews = [s["skew"] for s in shards if s["level"] == level]
            assert abs(sum(skews) - len(skews)) < 0.01
    lines = prometheus(progress[0]).splitlines()
    line = re.compile(r'freshet_\w+\{level="\d+",shard="\d+"(,view="\w+")?\} [\d.e-]+')
    assert all(line.fullmatch(text) or text.startswith(("# HELP freshet_", "# TYPE freshet_")) for text in lines)
    (first, *_), view = metrics(progress[0]), 'view="plain"'
    assert f'freshet_rows{{level="0",shard="{first["shard"]}"}} {first["rows"]}' in lines
    assert any(view in text for text in lines)
    assert metrics(None) == []
