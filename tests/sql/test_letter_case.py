"""Letters of keywords and names do not count: every SQL text of the suite means the same in any of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import freshet
from freshet.errors import SqlError
from freshet.job.file import read_job
from freshet.sql.catalog import Catalog
from freshet.sql.parse import parse
from tests.recase import CASES, recased
from tests.sql.texts import ROOT, functions, tables, texts


def meaning(sql: str, tables: Catalog) -> tuple[object, ...]:
    try:
        return ("read", repr(parse(sql, tables)).casefold())
    except SqlError as error:
        return (type(error), error.line, error.column, error.reason.casefold())


@pytest.mark.parametrize("case", CASES)
def test_every_text_means_the_same(case: str) -> None:
    tried = 0
    for ddl, sql in texts():
        again = recased(sql, case, tried)
        assert meaning(again, tables(ddl)) == meaning(sql, tables(ddl)), again
        tried += again != sql
    assert tried > 500


def test_every_function_computes_the_same() -> None:
    """Units are texts when they are computed with."""
    db, tried = freshet.connect(), 0
    for sql in functions():
        wanted = answer(db, sql)
        for case in CASES:
            assert answer(db, recased(sql, case, 2)) == wanted, recased(sql, case, 2)
        tried += isinstance(wanted, list)
    assert tried > 150


def answer(db: freshet.Database, sql: str) -> object:
    try:
        return [repr(v) for v in db.execute(sql).column(0).to_pylist()]
    except freshet.FreshetError as error:
        return type(error)


@pytest.mark.parametrize("case", CASES)
def test_frames_in_any_letters(case: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (id INT, v INT); INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    for frame, expected in {
        "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW": [10, 30, 50],
        "ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING": [30, 50, 30],
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING": [None, 10, 30],
        "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING": [60, 50, 30],
        "ROWS 1 PRECEDING": [10, 30, 50],
    }.items():
        sql = recased(f"SELECT id, SUM(v) OVER (ORDER BY id {frame}) AS total FROM t", case, 3)
        answer = db.execute(sql)
        assert [total for _, total in sorted(zip(*(c.to_pylist() for c in answer.columns), strict=True))] == expected


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/job.sql")), ids=lambda p: p.parent.name)
def test_job_files_mean_the_same(path: Path, case: str) -> None:
    text = path.read_text()
    job, mistakes = read_job(text)
    again, more = read_job(recased(text, case, 1))
    assert mistakes == more == []
    assert repr(again).casefold() == repr(job).casefold()
