"""The small tables every test here binds against."""

from __future__ import annotations

import pytest

from freshet.sql.catalog import Catalog

DDL = """
CREATE TABLE a (k BIGINT PRIMARY KEY, x INT, y INT NOT NULL, s STRING, d DATE, p DECIMAL(10,2));
CREATE TABLE b (k BIGINT NOT NULL, x INT, z INT);
CREATE TABLE c (k BIGINT, x INT, w INT);
CREATE MATERIALIZED VIEW plain AS SELECT k, x + 1 AS x1 FROM a WHERE y > 0;
CREATE MATERIALIZED VIEW grouped AS SELECT x, count(*) AS n FROM b GROUP BY x;
"""


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog.from_ddl(DDL)
