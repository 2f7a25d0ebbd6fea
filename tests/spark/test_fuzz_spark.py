"""Random queries, compared with Spark's answers; `make fuzz-spark` runs thousands more."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.choices import Choices
from tests.fuzz.spark_run import SETTINGS, Answer, compare, run_query, shortest

QUERIES = 150


@pytest.fixture
def asked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session that answers small queries fast, and does not log those it refuses."""
    monkeypatch.setattr(logging.getLogger("SQLQueryContextLogger"), "disabled", True)
    session = spark.newSession()
    for key, value in SETTINGS.items():
        if key.startswith("spark.sql."):
            session.conf.set(key, value)
    return session


def test_random_queries_agree_with_spark(asked: SparkSession) -> None:
    kinds = []
    for seed in range(QUERIES):
        outcome = run_query(Choices(seed=seed), asked)
        kinds.append(outcome.kind)
        if outcome.kind == "failed":
            least = shortest(outcome, asked, 60)
            pytest.fail(f"seed {seed}: {least.why}\n{least.sql}\n{least.tables}")
    assert kinds.count("agreed") > 0.3 * QUERIES


ONE = Answer(("a", "b"), ("INT", "STRING"), ((1, "x"), (None, "y")))


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (Answer(("a", "c"), ONE.types, ONE.rows), "columns"),
        (Answer(ONE.names, ("BIGINT", "STRING"), ONE.rows), "types"),
        (Answer(ONE.names, ONE.types, ONE.rows[:1]), "rows"),
        (Answer(ONE.names, ONE.types, ((1, "x"), (0, "y"))), "rows"),
        (Answer(ONE.names, ONE.types, ONE.rows[::-1]), "order"),
        (Answer(error="[UNRESOLVED_COLUMN]"), "answered here"),
    ],
)
def test_a_difference_is_found(other: Answer, what: str) -> None:
    kind, why = compare("SELECT a, b FROM t", ONE, other, [(0, False, True)])
    assert kind == "failed" and why.startswith(what)
    assert compare("SELECT a, b FROM t", ONE, ONE, [(0, False, True)])[0] == "agreed"
