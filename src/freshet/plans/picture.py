"""A plan as SVG, for notebooks: its join tree from the root down, and below it the trees of what it reads.

It is drawn from the data that `explain` prints, so the picture and the text agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

_WIDTH, _HEIGHT, _ACROSS, _DOWN = 168, 46, 20, 58
_TITLE = 24
_LINE, _INK, _FAINT, _ACCENT = "#868e96", "#212529", "#5c636a", "#0b7285"


def picture(described: dict[str, Any]) -> str:
    """Takes what `as_dict` gives."""
    parts, width, height = [], 0.0, 0.0
    for title, plan in _plans("", described):
        shapes, wide, high = _tree(plan)
        shown = f"{title}: {plan['class']}" if title else plan["class"]
        parts.append(
            f'<g transform="translate(4 {height + 4:g})">{_text(0, 14, shown, _FAINT, "start")}'
            f'<g transform="translate(0 {_TITLE})">{shapes}</g></g>'
        )
        width = max(width, wide, 7.0 * len(shown))
        height += _TITLE + high + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 8:g}" height="{height + 8:g}" '
        f'viewBox="0 0 {width + 8:g} {height + 8:g}">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>'
    )


def _plans(title: str, plan: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield title, plan
    for name, below in plan["inputs"].items():
        yield from _plans(f"input {name}", below)


def _tree(plan: dict[str, Any]) -> tuple[str, float, float]:
    """The shapes of one tree, and the room they take."""
    nodes: Sequence[dict[str, Any]] = plan.get("tree") or []
    if not nodes:
        return "", 0, 0
    places = _places([node["parent"] for node in nodes])
    shapes = []
    for node, (x, y) in zip(nodes, places, strict=True):
        middle = x + _WIDTH / 2
        if node["parent"] >= 0:
            above, bottom = places[node["parent"]][0] + _WIDTH / 2, places[node["parent"]][1] + _HEIGHT
            shapes.append(
                f'<path d="M{above:g} {bottom:g} C{above:g} {bottom + 24:g} {middle:g} {y - 24:g} {middle:g} {y:g}" '
                f'fill="none" stroke="{_LINE}"/>'
            )
            label = _short(f"{node['kind']}: {', '.join(map(_bare, node['key'])) or 'anything'}", 26)
            wide = 6.2 * len(label)
            shapes.append(
                f'<rect x="{middle - wide / 2:g}" y="{y - 24:g}" width="{wide:g}" height="16" fill="#fff"/>'
                + _text(middle, y - 12, label, _FAINT)
            )
    for node, (x, y) in zip(nodes, places, strict=True):
        edge = f'stroke="{_ACCENT}" stroke-width="2"' if node["output"] else f'stroke="{_LINE}" stroke-dasharray="4 3"'
        shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#fff" {edge}/>')
        shapes.append(_text(x + _WIDTH / 2, y + 19, _short(node["relation"], 24), _INK))
        shapes.append(
            _text(x + _WIDTH / 2, y + 36, _short(_own(" and ".join(node["filter"]), node["relation"]), 25), _FAINT)
        )
    return "".join(shapes), max(x for x, _ in places) + _WIDTH, max(y for _, y in places) + _HEIGHT


def _places(parents: Sequence[int]) -> list[tuple[float, float]]:
    """Leaves are placed next to each other, each parent above the middle of its children. Parents come before their
    children."""
    children: list[list[int]] = [[] for _ in parents]
    depth = [0] * len(parents)
    for i, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(i)
            depth[i] = depth[parent] + 1
    across, leaves = [0.0] * len(parents), 0

    def place(i: int) -> None:
        nonlocal leaves
        for child in children[i]:
            place(child)
        if children[i]:
            across[i] = (across[children[i][0]] + across[children[i][-1]]) / 2
        else:
            across[i] = leaves * (_WIDTH + _ACROSS)
            leaves += 1

    for i, parent in enumerate(parents):
        if parent < 0:
            place(i)
    return [(x, d * (_HEIGHT + _DOWN)) for x, d in zip(across, depth, strict=True)]


def _text(x: float, y: float, text: str, colour: str, anchor: str = "middle") -> str:
    style = f'font-family="sans-serif" font-size="12" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(text)}</text>' if text else ""


def _bare(key: str) -> str:
    """Leaves out the tables of its columns, which the picture shows; a column that both have is named once."""
    sides = [re.sub(r"\b(?:\w+\.)+(?=\w)", "", side) for side in key.split(" = ")]
    return " = ".join(dict.fromkeys(sides))


def _own(condition: str, relation: str) -> str:
    return condition.replace(f"{relation}.", "")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
