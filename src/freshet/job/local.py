"""A job's file sources read in this process: Parquet, CSV, JSON and TBL files as transactions of rows.

The tables' files are taken in order of their time, as Spark takes them, and cut into transactions of some rows.
"""

from __future__ import annotations

import base64
import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from freshet.errors import ChangeError, PlanError, brief
from freshet.job.file import JobFile, JobSource
from freshet.job.options import CHANGES, SEQUENCE
from freshet.plans.document import table_ddl

_TYPES = {"_weight": pa.int64(), "_change_type": pa.string()}
_READ = ("parquet", "csv", "json", "tbl")
_END = "_end"
_MOST_LEVELS = 500
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]], _STEPS[[ord("]"), ord("}")]] = 1, -1
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@dataclass(frozen=True)
class FileSource:
    """The tables of a job file and their files; the views of the job are its queries."""

    job: JobFile
    ddl: str
    name: str = "files"

    @property
    def queries(self) -> Mapping[str, str]:
        return self.job.views

    @property
    def fixed(self) -> Mapping[str, pa.Table]:
        return {}

    def rounds(self, mode: str, window: float, size: int) -> Iterator[dict[str, pa.Table]]:
        found = [(os.stat(f).st_mtime, f, s) for s in self.job.sources.values() for f in files_of(self.job, s)]
        for _, path, source in sorted(found, key=lambda x: x[:2]):
            try:
                table = read_file(path, source)
            except ChangeError as e:  # shown by a page
                raise ChangeError(self.job.secrets.redacted(e.reason), e.table) from None
            for start in range(0, table.num_rows, size):
                yield {source.schema.name: table.slice(start, size)}


def file_source(job: JobFile) -> FileSource:
    for source in job.sources.values():
        if source.place.format not in _READ:
            raise PlanError(
                f"table {source.schema.name} comes from {source.place.format}, which only Spark reads; "
                f"use freshet run --web, or one of {', '.join(_READ)}"
            )
    return FileSource(job, ";\n".join(table_ddl(s.schema) for s in job.sources.values()))


def files_of(job: JobFile, source: JobSource) -> list[str]:
    path = job.path(source.place) or ""
    if os.path.isdir(path):
        return [str(p) for p in Path(path).iterdir() if p.is_file() and not p.name.startswith((".", "_"))]
    return sorted(glob.glob(path))


def read_file(path: str, source: JobSource) -> pa.Table:
    """The rows of one file: the table's columns, and the column that says how each row changes it."""
    place, fields = source.place, source.schema.fields
    types = {f.name: f.type.to_arrow() for f in fields}
    changes = place.get(CHANGES)
    if changes is not None:
        types[changes] = _TYPES[changes]
    ordered = (place.get(SEQUENCE) or "").partition(" ")[0]
    try:
        if place.format == "parquet":
            table = pq.read_table(path)
        elif place.format == "json":
            table = _read_json(path, source, types)
        else:
            table = _read_text(path, source, types, ordered)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as e:
        raise ChangeError(f"{path} cannot be read as {place.format}: {e}", source.schema.name) from None
    if ordered and ordered in table.column_names:
        table = table.sort_by(ordered)
    return table.select([c for c in table.column_names if c in types])


def _read_json(path: str, source: JobSource, types: dict[str, pa.DataType]) -> pa.Table:
    """Binary values are texts in base 64, with padding, as Spark reads them."""
    forms = [(name, pa.string() if pa.types.is_binary(kind) else kind) for name, kind in types.items()]
    with pa.input_stream(path) as file:
        data = file.read()
    deep = _deep_line(data)
    if deep is not None:
        raise ChangeError(
            f"{path}, line {deep}, has more than {_MOST_LEVELS} levels; write less nested", source.schema.name
        )
    options = pajson.ParseOptions(explicit_schema=pa.schema(forms))
    table = pajson.read_json(pa.BufferReader(data), parse_options=options)
    for place, name in enumerate(table.column_names):
        if name in types and pa.types.is_binary(types[name]):
            texts = table.column(place).to_pylist()
            wrong = next((i for i, t in enumerate(texts) if t is not None and not _BASE64.fullmatch(t)), None)
            if wrong is not None:
                reason = f"{path}: {name} is {brief(texts[wrong])}, not base 64; write bytes so in JSON"
                raise ChangeError(reason, source.schema.name, wrong)
            made = pa.array([None if t is None else base64.b64decode(t) for t in texts], pa.binary())
            table = table.set_column(place, name, made)
    return table


def _deep_line(data: bytes) -> int | None:
    """The first line of more levels than Arrow may be given: it recurses at each, and beyond some thousands of them the
    process would end. Brackets in texts do not count, which is looked at only if they could matter."""
    if np.ptp(_levels(data)) <= _MOST_LEVELS:
        return None
    plain = _TEXTS.sub(b"", data)
    deep = np.flatnonzero(_levels(plain) > _MOST_LEVELS)
    return plain[: deep[0]].count(b"\n") + 1 if len(deep) else None


def _levels(data: bytes) -> Any:
    """How many brackets are open at each byte."""
    return np.cumsum(_STEPS[np.frombuffer(b" " + data, np.uint8)], dtype=np.int32)


def _read_text(path: str, source: JobSource, types: dict[str, pa.DataType], ordered: str) -> pa.Table:
    place = source.place
    names = [*types, *([ordered] if ordered and ordered not in types else [])]
    header = (place.get("header") or "false").lower() == "true"
    if place.format == "tbl":
        delimiter = place.get("delimiter") or "|"
        names += [_END] if (place.get("trailing") or "true").lower() == "true" else []
    else:
        delimiter = place.get("sep") or place.get("delimiter") or ","
    return pacsv.read_csv(
        path,
        read_options=pacsv.ReadOptions(column_names=names, skip_rows=1 if header else 0),
        parse_options=pacsv.ParseOptions(delimiter=delimiter),
        convert_options=pacsv.ConvertOptions(column_types=types, strings_can_be_null=True),
    )
