"""BINARY from input rows to answers, in memory and in folders, and its display."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import freshet
from freshet.cli.formats import grid
from freshet.cli.results import plain
from freshet.job.file import JobSource, read_job
from freshet.job.local import read_file
from freshet.plans import codec
from freshet.scalar.expression import Literal
from freshet.scalar.hexadecimal import digits
from freshet.scalar.types import BINARY
from freshet.web.answer import Window, show
from freshet.web.download import download

DDL = "CREATE TABLE t (k BINARY PRIMARY KEY, v BINARY, s STRING)"
VIEWS = {
    "rows": "SELECT k, v, s FROM t WHERE v > X'00'",
    "groups": "SELECT v, COUNT(*) AS n, MIN(k) AS a, MAX(k) AS b, COUNT(DISTINCT k) AS d FROM t GROUP BY v",
    "pairs": "SELECT a.k, b.k AS other FROM t AS a JOIN t AS b ON a.v = b.v",
    "top": "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 2",
    "ranks": "SELECT k, ROW_NUMBER() OVER (PARTITION BY v ORDER BY k) AS r FROM t",
    "lists": "SELECT ARRAY_AGG(v) AS l, STRING_AGG(v, X'2C') AS j FROM t",
}
ROWS = [
    {"k": b"\xff\x00", "v": b"\xfe", "s": "a"},
    {"k": b"", "v": b"a", "s": "b"},
    {"k": b"a", "v": b"a", "s": None},
    {"k": b"\x80", "v": None, "s": "c"},
]


def made(folder: Path | None = None, **options: Any) -> freshet.Database:
    db = freshet.connect(folder, **options)
    db.execute(DDL)
    for name, sql in VIEWS.items():
        db.create_view(name, sql)
    return db


def answers(db: freshet.Database) -> dict[str, list[tuple[Any, ...]]]:
    return {n: sorted((tuple(r.values()) for r in db.view(n).to_arrow().to_pylist()), key=repr) for n in VIEWS}


EXPECTED = {
    "rows": [(b"", b"a", "b"), (b"\xff\x00", b"\xfe", "a"), (b"a", b"a", None)],
    "groups": [(None, 1, b"\x80", b"\x80", 1), (b"\xfe", 1, b"\xff\x00", b"\xff\x00", 1), (b"a", 2, b"", b"a", 2)],
    "pairs": [(b"", b""), (b"", b"a"), (b"\xff\x00", b"\xff\x00"), (b"a", b""), (b"a", b"a")],
    "top": [(b"", b"a"), (b"\xff\x00", b"\xfe")],
    "ranks": [(b"", 1), (b"\x80", 1), (b"\xff\x00", 1), (b"a", 2)],
    "lists": [([b"a", b"a", b"\xfe"], b"a,a,\xfe")],
}


def test_answers_and_changes() -> None:
    db = made()
    db.apply({"t": ROWS})
    assert answers(db) == EXPECTED
    assert db.view("rows").to_arrow().schema.field("k").type == pa.binary()
    delta = db.execute("UPDATE t SET v = X'61' WHERE k = X'80'").deltas["groups"]
    assert sorted(delta["_weight"].to_pylist()) == [-1, -1, 1]
    db.apply({"t": [{"k": b"\x80", "_change_type": "delete"}, {"k": b"", "v": b"z", "_change_type": "upsert"}]})
    assert [r["v"] for r in db.view("top").to_arrow().to_pylist()] == [b"\xfe", b"z"]
    db.execute("DELETE FROM t")
    db.apply({"t": ROWS})
    assert answers(db) == EXPECTED


@pytest.mark.parametrize("closed", [True, False])
def test_folders(tmp_path: Path, closed: bool) -> None:
    """From the checkpoint, and from the log alone."""
    db = made(tmp_path / "db", durability="os")
    db.apply({"t": ROWS[:2]})
    db.apply({"t": ROWS[2:]})
    db.close()
    if not closed:
        for file in (tmp_path / "db").iterdir():
            if "checkpoint" in file.name:
                os.remove(file)
    with freshet.connect(tmp_path / "db") as again:
        assert answers(again) == EXPECTED


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.dictionary(pa.int8(), pa.binary())]
)
@pytest.mark.parametrize("chunks", [1, 2])
def test_arrow_types(kind: pa.DataType, chunks: int) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE b (v BINARY)")
    view = db.create_view("v", "SELECT * FROM b")
    values = [b"ab", None, b"\xff\xfe"]
    whole = pa.array(values, pa.binary(2) if kind == pa.binary(2) else pa.binary())
    array = whole.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else whole.cast(kind)
    db.apply({"b": pa.table([pa.chunked_array([array] * chunks)], ["v"])})
    assert sorted(view.to_arrow()["v"].to_pylist(), key=repr) == sorted(values * chunks, key=repr)


def test_values_of_python() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE b (v BINARY)")
    view = db.create_view("v", "SELECT * FROM b")
    db.apply({"b": [{"v": bytearray(b"a")}, {"v": memoryview(b"b")}, {"v": np.bytes_(b"c")}, {"v": None}]})
    db.apply({"b": pd.DataFrame({"v": [b"d", None]})})
    db.apply({"b": pl.DataFrame({"v": [b"e"]})})
    assert sorted(v for v in view.to_arrow()["v"].to_pylist() if v is not None) == [b"a", b"b", b"c", b"d", b"e"]


def test_objects_of_polars_are_refused() -> None:
    """Arrow gets their addresses."""
    db = freshet.connect()
    db.execute("CREATE TABLE b (v BINARY)")
    with pytest.raises(freshet.ChangeError, match="column v has Python objects; give it a type of polars"):
        db.apply({"b": pl.DataFrame({"v": pl.Series([b"a", [1]], dtype=pl.Object)})})


@pytest.mark.parametrize("value", ["a", 1, [1], 1.5, True])
def test_values_that_are_not_bytes_are_refused(value: Any) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE b (v BINARY)")
    for rows in ([{"v": b"a"}, {"v": value}], pd.DataFrame({"v": [b"a", value]}), pa.table({"v": [value]})):
        with pytest.raises(freshet.ChangeError, match="not a value of BINARY; give bytes"):
            db.apply({"b": rows})


def test_no_text_of_other_bytes() -> None:
    db = made()
    with pytest.raises(freshet.ChangeError, match="s is X'FF', not a value of STRING"):
        db.apply({"t": [{"k": b"a", "s": b"\xff"}]})
    with pytest.raises(freshet.ChangeError, match=r"X'61' \(binary\) is not a value of STRING; give text"):
        db.apply({"t": pa.table({"k": [b"a"], "s": [b"a"]})})
    db.create_view("texts", "SELECT CAST(v AS STRING) AS x, TRY_CAST(v AS STRING) AS y FROM t")
    with pytest.raises(freshet.ChangeError, match="X'FE' is not text in UTF-8; show it with HEX or BASE64"):
        db.apply({"t": ROWS})
    db.apply({"t": ROWS[1:]})
    assert sorted(db.view("texts").to_arrow()["x"].to_pylist(), key=repr) == ["a", "a", None]


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("X'zz'", "X'zz' has characters other than 0 to 9 and A to F"),
        ("X'+1'", r"X'\+1' has characters other"),
        ("0xFF", "0xFF is not a number in Spark"),
        ("CAST(v AS BINARY(3))", r"type BINARY\(3\) is not supported"),
        ("CAST(v AS INT)", "a BINARY cannot be cast to INT; cast it to STRING first"),
        ("CAST(1 AS BINARY)", "cannot be cast to BINARY; cast it to STRING first"),
        ("v + 1", r"no operator BINARY \+ INT"),
        ("v = 1", "no operator BINARY = INT"),
        ("GREATEST(v, 'a')", r"no function GREATEST\(BINARY, STRING\)"),
        ("SUM(v)", r"no aggregate SUM\(BINARY\)"),
        ("STRING_AGG(v, ',')", "STRING_AGG of BINARY has a separator of STRING; give one like X'2C'"),
        ("FORMAT_STRING('%s', v)", "not BINARY; cast the argument"),
        ("OVERLAY(v, 'a', 1)", r"no function OVERLAY\(BINARY, STRING, INT\)"),
        ("SOUNDEX(v)", r"no function SOUNDEX\(BINARY\)"),
        ("TO_BINARY('a', 'x')", "'x' is not a format of TO_BINARY"),
    ],
)
def test_refusals(written: str, wrong: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE b (v BINARY)")
    with pytest.raises(freshet.SqlError, match=wrong):
        db.create_view("x", f"SELECT {written} AS x FROM b")


def test_plans_hold_bytes() -> None:
    literal = Literal(BINARY, b"\xff\x00")
    assert codec.from_json(codec.to_json(literal)) == literal
    broken = codec.to_json(literal).replace("ff00", "xy")
    with pytest.raises(freshet.PlanError, match="is not bytes; write them as hexadecimal digits"):
        codec.from_json(broken)
    assert "X'FF00'" in freshet.plan("SELECT v FROM t WHERE v = X'FF00'", DDL).explain()


def test_shown() -> None:
    table = pa.table({"b": [b"\xde\xad", None, b""], "l": [[b"\x01", b"\x02"], [], None]})
    assert show(table, Window()).rows == [["[DE AD]", "[[01], [02]]"], [None, "[]"], ["[]", None]]
    assert show(table, Window(filter="de ad")).matching == 1
    assert show(table, Window(sort="b", descending=True)).rows[0][0] == "[DE AD]"
    assert download(table.select(["b"]), "csv")[0].decode() == '"b"\n"[DE AD]"\n\n"[]"\n'
    assert list(grid(["b"], [(b"\xde\xad",), (None,), ([b"\x01"],)]))[2:] == ["[DE AD]", "NULL", "[[01]]"]
    assert plain({"b": b"\xde\xad"}) == {"b": "3q0="}


def test_digits() -> None:
    data = pa.array([b"x", b"", None, b"\xff\x00", b"last"], pa.large_binary())
    for part in (data, data[1:4], data[:0], data[2:3]):
        assert digits(part).to_pylist() == [None if v is None else v.hex().upper() for v in part.to_pylist()]


def test_files_of_jobs(tmp_path: Path) -> None:
    """JSON has bytes in base 64, with its padding; of CSV the text is the bytes: both as Spark reads them."""
    (tmp_path / "a.json").write_text("\n".join(json.dumps({"k": k, "v": v}) for k, v in ((1, "3q0="), (2, None))))
    (tmp_path / "b.json").write_text('{"k": 1, "v": "3q0"}')
    (tmp_path / "a.csv").write_text("1,ab\n2,\n3,3q0=\n")

    def source_of(form: str) -> JobSource:
        table = f"CREATE TABLE j (k INT, v BINARY) USING {form} OPTIONS (path '{tmp_path}/*.{form}')"
        job, _ = read_job(f"{table}; CREATE MATERIALIZED VIEW x AS SELECT v FROM j")
        return job.sources["j"]

    source = source_of("json")
    assert read_file(str(tmp_path / "a.json"), source)["v"].to_pylist() == [b"\xde\xad", None]
    with pytest.raises(freshet.ChangeError, match="v is '3q0', not base 64"):
        read_file(str(tmp_path / "b.json"), source)
    assert read_file(str(tmp_path / "a.csv"), source_of("csv"))["v"].to_pylist() == [b"ab", None, b"3q0="]
