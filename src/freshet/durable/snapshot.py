"""The current database as records: its catalog, the rows of its tables, and its origin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from freshet.durable.record import CATALOG, ROWS, SNAPSHOT, json_payload, rows_payload, stored
from freshet.engine.table import Table

_ROWS = 1 << 16  # in a record

NOTHING: Mapping[str, Any] = {"numbers": 0, "tables": {}, "views": {}}


def snapshot(
    version: int, catalog: Mapping[str, Any], tables: Mapping[str, Table], changes: int, changed: Mapping[str, int]
) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, rows, version and payload of each record."""
    yield CATALOG, 0, version, json_payload(differences(noted(NOTHING), catalog))
    for table in tables.values():
        slots = table.tuples.slots()
        for start in range(0, len(slots), _ROWS):
            some = slots[start : start + _ROWS]
            yield ROWS, len(some), version, rows_payload([(table, *stored(table, some))])
    yield SNAPSHOT, 0, version, json_payload({"changes": changes, "changed": dict(changed)})


def noted(catalog: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The current catalog, for a later comparison."""
    return {kind: {key: json.dumps(e) for key, e in catalog[kind].items()} for kind in ("tables", "views")}


def differences(before: dict[str, dict[str, str]], catalog: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of a catalog since it was recorded: entries that are new or different, None for removed ones."""
    changed: dict[str, Any] = {"numbers": catalog["numbers"]}
    for kind, now in noted(catalog).items():
        changed[kind] = {key: None for key in before[kind] if key not in now}
        changed[kind] |= {key: catalog[kind][key] for key, text in now.items() if before[kind].get(key) != text}
    return changed
