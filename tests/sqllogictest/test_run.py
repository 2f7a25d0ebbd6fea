"""The sqllogictest runner: the records it reads, and that it detects a wrong answer."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.sqllogictest.generate import KINDS, generated
from tests.sqllogictest.records import Query, Statement, records
from tests.sqllogictest.run import _Run, run_text

FILE = Path(__file__).parent / "select.test"


def text() -> str:
    return FILE.read_text()


def test_a_file_of_every_kind_of_record() -> None:
    report = run_text(text(), "select.test")
    assert report.failed == []
    assert report.passed == 19
    assert not report.unsupported


def test_records() -> None:
    parsed = list(records(text()))
    assert isinstance(parsed[0], Statement) and parsed[0].line == 3 and not parsed[0].fails
    assert isinstance(parsed[2], Query) and parsed[2].types == "IIT" and parsed[2].values[:3] == ("1", "10", "one")
    assert all("random" not in r.sql and "nothing" not in r.sql for r in parsed if isinstance(r, (Statement, Query)))


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("----\n30\n", "----\n31\n", "30, expected 31"),
        ("----\n60\n", "----\n60\n60\n", "1 rows, expected 2"),
        ("INTO nowhere VALUES (1)", "INTO t1 VALUES (4, 4, 'four')", "ran, and should have failed"),
        ("1\t1\t1", "1\t1\t2", "1 1 1, expected 1 1 2"),
        ("UPDATE t1 SET b = 30", "UPDATE t1 SET b = 31", "61, expected 60"),
    ],
)
def test_wrong_expectations_fail(right: str, wrong: str, message: str) -> None:
    assert right in text()
    failures = run_text(text().replace(right, wrong), "select.test").failed
    assert any(message in failure for failure in failures), failures


def test_a_view_without_an_answer_does_not_stop_the_others() -> None:
    report = run_text(
        "statement ok\nCREATE TABLE t (a INTEGER)\n\nstatement ok\nINSERT INTO t VALUES (0), (1)\n\n"
        "query I nosort\nSELECT 1 / a FROM t\n----\n1\n\nquery I nosort\nSELECT SUM(a) FROM t\n----\n1\n",
        "division",
    )
    assert (report.passed, report.unsupported.total(), report.failed) == (3, 1, [])


def test_the_shipped_files_pass() -> None:
    for path in sorted(FILE.parent.glob("*.test")):
        report = run_text(path.read_text(), path.name)
        assert report.failed == [] and report.passed > 15


def hashed(sql: str, values: list[object]) -> str:
    digest = hashlib.md5("".join(f"{v}\n" for v in values).encode()).hexdigest()
    return (
        "statement ok\nCREATE TABLE t (a INTEGER, b INTEGER)\n\n"
        "statement ok\nINSERT INTO t VALUES (2, 1), (10, 2), (NULL, 3)\n\n"
        f"query II nosort\n{sql}\n----\n{len(values)} values hashing to {digest}\n"
    )


def test_values_hashed_in_the_order_of_the_query() -> None:
    up: list[object] = ["NULL", 3, 2, 1, 10, 2]
    assert run_text(hashed("SELECT a, b FROM t ORDER BY a", up), "up").passed == 3
    assert run_text(hashed("SELECT a, b FROM t ORDER BY 1 DESC", [10, 2, 2, 1, "NULL", 3]), "down").passed == 3
    assert len(run_text(hashed("SELECT a, b FROM t ORDER BY a DESC", up), "wrong").failed) == 1
    assert run_text(hashed("SELECT a, b FROM t", up), "open").unsupported.total() == 1


def test_division_is_left_to_each_engine() -> None:
    report = run_text("statement ok\nCREATE TABLE t (a INTEGER)\n\nquery I nosort\nSELECT a / 2 FROM t\n----\n", "div")
    assert (report.passed, dict(report.unsupported)) == (1, {"division, of which engines differ": 1})


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_generated_files_pass(seed: int) -> None:
    name, text = generated(seed)
    report = run_text(text, name)
    assert report.failed == [] and report.unsupported.total() == 0
    assert report.passed > 20


def test_rows_out_of_order_fail() -> None:
    file = "statement ok\nCREATE TABLE t (a BIGINT)\n\nstatement ok\nINSERT INTO t VALUES (2), (1)\n\n"
    run = _Run("order", list(records(file + "query I nosort\nSELECT a FROM t ORDER BY a\n----\n1\n2\n")))
    query = run.records[-1]
    assert isinstance(query, Query)
    run._compare(query, [(2,), (1,)], ["a"])
    assert len(run.report.failed) == 1 and "order" in run.report.failed[0]
