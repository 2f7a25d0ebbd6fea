"""Streams of changes to watch: generated TPC-H, a graph, a market. The page, the demo and the benchmark use them."""

from __future__ import annotations

from freshet.demo.scenario import MODES, Scenario
from freshet.demo.scenarios import SCENARIOS, make_scenario

__all__ = ["MODES", "SCENARIOS", "Scenario", "make_scenario"]
