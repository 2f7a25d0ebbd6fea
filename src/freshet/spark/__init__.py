"""Freshet on Spark: views kept fresh by Structured Streaming, with Spark's exactly-once, scaling and connectors."""

from __future__ import annotations

from freshet.spark.debezium import debezium
from freshet.spark.envelopes import envelopes, messages, upserts
from freshet.spark.failure import reason
from freshet.spark.maintain import explain, maintain, quarantined, split
from freshet.spark.materialize import materialize, read_materialized
from freshet.spark.observed import metrics, prometheus
from freshet.spark.session import advice, session
from freshet.spark.ship import ship
from freshet.spark.sizes import sizes
from freshet.spark.snapshot import snapshot, views
from freshet.spark.system_clock import system_clock

__all__ = [
    "advice",
    "debezium",
    "envelopes",
    "explain",
    "maintain",
    "materialize",
    "messages",
    "metrics",
    "prometheus",
    "quarantined",
    "read_materialized",
    "reason",
    "session",
    "ship",
    "sizes",
    "snapshot",
    "split",
    "system_clock",
    "upserts",
    "views",
]
