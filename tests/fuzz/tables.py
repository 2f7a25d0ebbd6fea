"""Small random tables and transactions over them. Domains are tiny: keys collide, groups become empty, rows
reappear."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.fuzz.choices import Choices

Row = tuple[Any, ...]

#: Type letter → its SQL name, its Arrow type, and the values columns have besides NULL.
TYPES: dict[str, tuple[str, pa.DataType, Sequence[Any]]] = {
    "i": ("INT", pa.int32(), (1, 2, 0)),
    "s": ("STRING", pa.string(), ("a", "b", "ab")),
    "x": ("BINARY", pa.binary(), (b"a", b"\xff", b"", b"\xffa", b"\x7f")),
    "n": ("DECIMAL(6,2)", pa.decimal128(6, 2), tuple(map(decimal.Decimal, ("0.00", "1.50", "2.25", "-1.00")))),
    "d": ("DATE", pa.date32(), tuple(datetime.date(2024, 1, day) for day in (1, 2, 31))),
    "f": ("DOUBLE", pa.float64(), (0.0, 0.5, 1.5, -2.0)),  # sums of these are exact in any order
    # Factors: two of them may fit or not, by a little
    "w": ("BIGINT", pa.int64(), (1, -2, 0, 3_037_000_499, -3_037_000_500, 1 << 62, (1 << 63) - 1, -1 << 63)),
    "v": ("INT", pa.int32(), (1, -2, 0, 46_340, -46_341, 1 << 30, (1 << 31) - 1, -1 << 31)),
}


@dataclass
class TableModel:
    name: str
    columns: list[tuple[str, str]]  # name and type letter
    keyed: bool
    rows: list[Row] = field(default_factory=list)

    @property
    def ddl(self) -> str:
        written = [f"{name} {TYPES[kind][0]}" for name, kind in self.columns]
        if self.keyed:
            written[0] += " PRIMARY KEY"
        return f"CREATE TABLE {self.name} ({', '.join(written)})"

    def arrow(self, rows: Sequence[Row] | None = None) -> pa.Table:
        rows = self.rows if rows is None else rows
        columns = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        arrays = [pa.array(list(c), TYPES[kind][1]) for c, (_, kind) in zip(columns, self.columns, strict=True)]
        return pa.table(arrays, names=[name for name, _ in self.columns])


def random_tables(choices: Choices) -> list[TableModel]:
    made = []
    for i in range(1 + choices.below(3)):
        columns = [("a", "i"), ("b", "i")]
        columns += [(f"c{j}", kind) for j, kind in enumerate(choices.some("isxnfdwv", 0, 4))]
        made.append(TableModel(f"t{i}", columns, choices.chance(40)))
    return made


def random_row(choices: Choices, table: TableModel) -> Row:
    row = []
    for i, (_, kind) in enumerate(table.columns):
        values = TYPES[kind][2]
        key = i == 0 and table.keyed
        row.append(choices.below(6) if key else None if choices.chance(12) else choices.pick(values))
    return tuple(row)


@dataclass(frozen=True)
class Transaction:
    changes: dict[str, list[tuple[Row, int]]]

    def arrow(self, tables: Sequence[TableModel]) -> dict[str, pa.Table]:
        by_name = {t.name: t for t in tables}
        made = {}
        for name, rows in self.changes.items():
            table = by_name[name].arrow([row for row, _ in rows])
            made[name] = table.append_column("_weight", pa.array([w for _, w in rows], pa.int64()))
        return made


def random_transaction(choices: Choices, tables: Sequence[TableModel]) -> Transaction:
    """Changes that are all good; the models move along."""
    changes: dict[str, list[tuple[Row, int]]] = {}
    for table in tables:
        rows: list[tuple[Row, int]] = []
        gone = min(choices.below(4), len(table.rows))
        rows += [(table.rows.pop(choices.below(len(table.rows))), -1) for _ in range(gone)]
        for _ in range(choices.below(6) if table.rows else 4 + choices.below(8)):
            row = random_row(choices, table)
            if table.keyed and any(r[0] == row[0] for r in table.rows):
                continue
            copies = 2 if not table.keyed and choices.chance(20) else 1
            table.rows += [row] * copies
            rows.append((row, copies))
        if rows:
            changes[table.name] = rows
    return Transaction(changes)
