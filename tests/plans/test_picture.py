"""Plans as pictures: every node and edge of every tree, within the room there is."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest

import freshet
from freshet.demo import tpch
from freshet.plans.explain import as_dict

SVG = "{http://www.w3.org/2000/svg}"


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from plan.get("tree") or []
    for below in plan["inputs"].values():
        yield from nodes(below)


@pytest.mark.parametrize("name", ["Q1", "Q3", "Q5", "Q8", "Q13", "Q15", "Q21"])
def test_a_plan_is_drawn(name: str) -> None:
    plan = freshet.plan(tpch.queries()[name], tpch.schema())
    drawn = ET.fromstring(plan._repr_svg_())
    texts = [text.text or "" for text in drawn.iter(f"{SVG}text")]
    shown = list(nodes(as_dict(plan.root)))
    for node in shown:
        assert any(text.rstrip("…") == node["relation"][: len(text.rstrip("…"))] for text in texts if text), node
    assert len(list(drawn.iter(f"{SVG}path"))) == sum(node["parent"] >= 0 for node in shown)
    wide = float(drawn.attrib["width"])
    assert all(
        float(box.attrib["x"]) + float(box.attrib["width"]) <= wide
        for box in drawn.iter(f"{SVG}rect")
        if "rx" in box.attrib
    )


def test_texts_are_escaped() -> None:
    drawn = freshet.plan("SELECT a FROM t WHERE s < '<b>'", "CREATE TABLE t (a BIGINT, s STRING)")._repr_svg_()
    assert "<b>" not in drawn and "&lt;b&gt;" in drawn
