"""Freshet on Spark: views kept fresh by Structured Streaming, with Spark's exactly-once, scaling and connectors."""

from __future__ import annotations

from freshet.spark.maintain import explain, maintain, split

__all__ = ["explain", "maintain", "split"]
