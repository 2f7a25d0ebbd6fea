"""Start-up costs of the first transaction are paid when tables and views are created.

Law: the first call of an operation in a process costs hundreds of times more than later calls: compiled kernels are
loaded, expressions are prepared, indexes grow for the first time. So a table or a view is rehearsed when it is created
or opened: it is maintained over temporary tables in memory, into which a few rows are inserted, updated and deleted,
and the answer is read. Only loaded kernels and caches remain. Tables and views of the same kinds of parts (operators,
aggregates, types) call the same kernels, and are rehearsed once; and after many rehearsals in a row that loaded
nothing, a process skips them. A rehearsal that fails or takes too long is abandoned, which has no consequences.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from freshet.budget import Budget, unbudgeted
from freshet.database.instance import Instance
from freshet.database.reading import whole
from freshet.durable.record import rows_payload, stored
from freshet.logical.query import CLOCK, AnyQuery, TableSchema, is_internal
from freshet.logical.statements import CreateTable
from freshet.plans import AnyPlan, Plan
from freshet.plans.model import Node, RelationPlan
from freshet.state.allocators import give_back_compiler
from freshet.state.arrays import texts_of, whole_numbers
from freshet.state.kernel_cache import KERNELS

logger = logging.getLogger("freshet")

_SECONDS = 0.5  # of processor time
_MANY = 20  # enough rows to make an index grow
_NAMED = ("kind", "operator", "function", "unit", "span")  # fields of plans that determine which kernels run
_ENOUGH = 12  # rehearsals in a row that loaded nothing
_rehearsed: set[frozenset[str]] = set()
_kernels_attached = [0]  # kernels loaded after each rehearsal


def rehearse(tables: Iterable[TableSchema], view: tuple[AnyQuery, Plan] | None = None) -> None:
    """Only tables, or a view over them."""
    tables = list({schema.name.lower(): schema for schema in tables}.values())
    kinds = frozenset(_kinds((tables, None if view is None else view[1].root)))
    if kinds in _rehearsed or _kernels_attached[-_ENOUGH:] == [_kernels_attached[-1]] * _ENOUGH:
        return
    _rehearsed.add(kinds)
    try:
        with unbudgeted(), Budget(_SECONDS):
            if not _played(tables, view) and view is not None:
                query, plan = view
                _played(tables, (query, replace(plan, root=_unfiltered(plan.root))))
    except Exception as e:
        logger.debug("freshet: a rehearsal has ended: %s", e)
    if KERNELS.attached() != _kernels_attached[-1]:
        give_back_compiler()
    _kernels_attached.append(KERNELS.attached())


def _played(tables: list[TableSchema], view: tuple[AnyQuery, Plan] | None) -> bool:
    """Whether the view has ever changed."""
    made = Instance()
    try:
        timed, tables = CLOCK in tables, [schema for schema in tables if not is_internal(schema)]
        for schema in tables:
            made.ddl.create_table(CreateTable(schema))
        if timed:
            made.views.have_clock()
        if view is not None:
            made.views.make(" ", view[0], set(), view[1], True, "")
        changed = _play(made, tables)
        if timed:
            made.transactions.advance(timedelta(days=1))
        return changed
    finally:
        made.close()


def _unfiltered(part: Any) -> Any:
    """A plan without its filters, so that rows pass."""
    if isinstance(part, tuple):
        return tuple(_unfiltered(each) for each in part)
    if isinstance(part, Node):
        return replace(part, filter=())
    if isinstance(part, RelationPlan | AnyPlan):
        changed = {f.name: _unfiltered(getattr(part, f.name)) for f in fields(part)}
        return replace(part, **changed)
    return part


def _play(made: Instance, tables: list[TableSchema]) -> bool:
    """Inserts a row into each table as Arrow and one as Python values, with equal texts and with numbers that increase
    from table to table; updates a row; lets indexes grow; deletes all rows."""
    first, third = ({s.name: _rows(s, [n], n) for s in tables} for n in (0, 1))
    second = {s.name: _rows(s, [2 + i], 0) for i, s in enumerate(tables)}
    last = len(tables) + 2
    many = _rows(tables[0], range(last, last + _MANY), 1) if tables else None
    steps: list[dict[str, Any]] = [
        {name: rows.drop_columns(["_weight"]) for name, rows in first.items()},
        {name: _plain(rows) for name, rows in second.items()},
        {name: pa.concat_tables([rows, _deletions(first[name])]) for name, rows in third.items()},
        *([] if many is None else [{tables[0].name: many}, {tables[0].name: _deletions(many)}]),
        {name: _deletions(pa.concat_tables([second[name], third[name]])) for name in first},
    ]
    changed = False
    for changes in steps:
        changed |= any(delta.num_rows for delta in list(made.transactions.apply(changes).deltas.values()))
        if changes is steps[2]:
            _look(made)
    return changed


def _look(made: Instance) -> None:
    """Reads answers, and rows in the form of the log."""
    for view in made.views.named.values():
        view.operator.count()
        whole(view.operator, view.plan.root.fields, made.state.memory)
    rows_payload((table, *stored(table, table.tuples.slots())) for table in made.state.core.tables.values())


def _rows(schema: TableSchema, numbers: Sequence[int], text: int) -> pa.Table:
    columns = {field.name: _column(field.type.to_arrow(), numbers, text) for field in schema.fields}
    return pa.table({**columns, "_weight": whole_numbers([1] * len(numbers))})


def _column(type: pa.DataType, numbers: Sequence[int], text: int) -> pa.Array:
    """Values of a type; NULL if none can be made of a number. Texts are the number `text`, or its multiples."""
    texts = texts_of(str(n * text) for n in numbers)
    for way in (pa.int64(), pa.int32(), pa.string()):
        try:
            if type == pa.string() or way == pa.string():
                return texts.cast(type)
            return whole_numbers(numbers).cast(way).cast(type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    return pa.nulls(len(numbers), type)


def _plain(rows: pa.Table) -> list[dict[str, Any]]:
    """The values in Python, decimals as they are usually written."""
    return [
        {name: value.normalize() if isinstance(value, Decimal) else value for name, value in row.items()}
        for row in rows.to_pylist()
    ]


def _deletions(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("_weight")
    return rows.set_column(at, "_weight", whole_numbers([-1] * rows.num_rows))


def _kinds(part: object) -> Iterator[str]:
    """The kinds of the parts of plans and schemas, without their names and values."""
    if isinstance(part, (tuple, list)):
        for each in part:
            yield from _kinds(each)
    elif is_dataclass(part):
        kind = type(part).__name__
        yield kind
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, str):
                if field.name in _NAMED or (kind == "Type" and field.name == "name"):
                    yield f"{kind} {value}"
            elif value is True:
                yield f"{kind} {field.name}"
            else:
                yield from _kinds(value)
