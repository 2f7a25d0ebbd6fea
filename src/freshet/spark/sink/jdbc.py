"""The answer as a table of a database, updated by one transaction per batch.

Laws. The executors write a batch to a table of its own next to the target (the *stage*), whose primary key keeps a task
that Spark runs twice from adding twice. One transaction, of standard SQL sent by the driver, merges it and records the
batch's number in freshet_batches, whose key lets each number in once. So a batch is in, with its number, or it is not.
Statements find the target's rows by its primary key, from the stage: the cost follows the change.

Without key columns the target is a bag: the view's columns, `_weight`, and `_row`, a hash of the row that stands for
"the same row", because databases disagree on NULL, on padding and on fractions of a second. With key columns it is a
plain table, and what went and what came under a key is one delete, insert or update.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from freshet.database.change_type import WEIGHT
from freshet.errors import ChangeError, PlanError, StateError
from freshet.spark.sink.batch import REMEMBERED, Applied, Batch, quoted, removed_too_often, shown
from freshet.spark.sink.keyed import AFTER, BEFORE, CAME, WENT, changed_by_key
from freshet.spark.sink.spread import columns_of

ROW, OP = "_row", "_op"
DELETED, UPDATED, INSERTED = -1, 0, 1
BATCHES = "freshet_batches"

logger = logging.getLogger("freshet.spark")


class JdbcCopy:
    def __init__(self, spark: SparkSession, url: str, options: Mapping[str, str]) -> None:
        self.spark, self.url = spark, url
        given = dict(options)
        if missing := [name for name in ("table", "driver") if not given.get(name)]:
            raise PlanError(
                f"a JDBC target needs the option {missing[0]}; give options={{'table': …, 'driver': …}}, the driver as"
                " a class name"
            )
        self.table, self.driver = given.pop("table"), given.pop("driver")
        if not re.fullmatch(r"\w+(\.\w+)*", self.table):
            raise PlanError(f"{self.table} is not a plain table name; give letters, digits and _, as in schema.table")
        self.key = tuple(k.strip() for k in given.pop("key", "").split(",") if k.strip())
        self.login: dict[str, str] = {k: given.pop(k) for k in ("user", "password") if k in given}
        self.options = given
        schema = self.table.rpartition(".")[0]
        mark = hashlib.sha256(self.table.encode()).hexdigest()[:8]
        self.stage = f"{schema}.freshet_stage_{mark}".lstrip(".")
        self.batches = f"{schema}.{BATCHES}".lstrip(".")
        self.types: dict[str, DataType] = {}

    # Ready ----------------------------------------------------------------------------------------------------------

    def prepare(self, schema: StructType) -> None:
        self.types = {f.name: f.dataType for f in schema}
        if unknown := [k for k in self.key if k not in self.types]:
            raise PlanError(f"the view has no column {unknown[0]} for the key; it has {', '.join(self.types)}")
        wanted = [*self.types] if self.key else [*self.types, WEIGHT, ROW]
        with self._connection() as link:
            if not link.answers(f"SELECT 1 FROM {self.batches} WHERE 1 = 0"):
                link.run(
                    f"CREATE TABLE {self.batches} (table_name VARCHAR(255) NOT NULL, batch_id BIGINT NOT NULL,"
                    " query_id VARCHAR(64), content VARCHAR(64), PRIMARY KEY (table_name, batch_id))"
                )
            known = self._applied(link) is not None
            if not link.answers(f"SELECT 1 FROM {self.table} WHERE 1 = 0"):
                if known:
                    raise StateError(
                        f"table {self.table} is gone, and {self.batches} says it was filled; remove its rows there and"
                        " start with a new checkpoint"
                    )
                self._create(link, self.table)
            there = link.columns(f"SELECT * FROM {self.table} WHERE 1 = 0")
            if sorted(c.lower() for c in there) != sorted(c.lower() for c in wanted):
                raise StateError(
                    f"table {self.table} has the columns {', '.join(there)}, and needs {', '.join(wanted)}; select the"
                    " table's columns, or give another table"
                )
            if not known:
                if link.first(f"SELECT 1 FROM {self.table}") is not None:
                    raise StateError(
                        f"table {self.table} is not empty and was not made by materialize; give a new or an empty table"
                    )
                start = Applied()
                for number, content in start.contents.items():
                    link.run(f"INSERT INTO {self.batches} VALUES (?, ?, NULL, ?)", self.table, number, content)

    def _create(self, link: _Link, table: str) -> None:
        """A table for the view's rows, or for a batch of them, in the database's own types as Spark knows them."""
        fields = [StructField(name, type_) for name, type_ in self.types.items()]
        types = self.options.get("createTableColumnTypes", "")
        if not self.key:
            fields += [StructField(WEIGHT, LongType(), False), StructField(ROW, StringType(), False)]
            # Not every database can have text of any length as a key.
            types = f"{types}, {ROW} VARCHAR(32)" if types else f"{ROW} VARCHAR(32)"
        elif table == self.stage:
            fields.append(StructField(OP, IntegerType(), False))
        jvm: Any = self.spark._jvm
        session: Any = self.spark._jsparkSession
        columns = jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils.schemaString(
            link.dialect, session.parseDataType(StructType(fields).json()), False, jvm.scala.Option.apply(types or None)
        )
        link.run(f"CREATE TABLE {table} ({columns}, PRIMARY KEY ({', '.join(map(link.quote, self.key or (ROW,)))}))")

    def _save(self, rows: DataFrame) -> None:
        """Writes a batch to its stage, from the executors."""
        with self._connection() as link:
            if link.answers(f"SELECT 1 FROM {self.stage} WHERE 1 = 0"):  # left behind by an interrupted run
                link.run(f"DROP TABLE {self.stage}")
            self._create(link, self.stage)
        options = {"numPartitions": "1", **self.options, **self.login}
        writer = rows.write.format("jdbc").options(**options)
        writer.option("url", self.url).option("dbtable", self.stage).option("driver", self.driver).mode("append").save()

    def _applied(self, link: _Link) -> Applied | None:
        """The batches recorded in the database for this table; None if there are none."""
        rows = link.all(
            f"SELECT batch_id, content, query_id FROM {self.batches} WHERE table_name = ? ORDER BY batch_id", self.table
        )
        if not rows:
            return None
        return Applied(rows[-1][2], {int(number or 0): content or "" for number, content, _ in rows})

    # A batch --------------------------------------------------------------------------------------------------------

    def apply(self, batch: Batch) -> None:
        with self._connection() as link:
            applied = self._applied(link)
        if applied is None:
            raise StateError(f"{self.batches} no longer knows table {self.table}; start again with a new table")
        if applied.has(batch, self._name) or not batch.count:
            return
        if self.key:
            rows = self._by_key(batch)
        else:
            rows = batch.frame().select(*columns_of(batch.columns), WEIGHT, _identity(self.types).alias(ROW))
        self._save(rows)
        with self._connection() as link:
            try:
                with link.transaction():
                    self._record(link, batch)
                    if self.key:
                        self._merge_by_key(link, batch)
                    else:
                        self._merge(link, batch)
            finally:
                self._drop_stage(link)

    def _drop_stage(self, link: _Link) -> None:
        """Drops the stage if possible; the batch does not depend on it, and the next batch drops leftovers."""
        try:
            link.run(f"DROP TABLE {self.stage}")
        except Py4JJavaError as error:
            logger.warning("freshet: %s could not be dropped: %s", self.stage, error.java_exception.getMessage())

    @property
    def _name(self) -> str:
        return f"table {self.table}"

    def _record(self, link: _Link, batch: Batch) -> None:
        """Called first, so that the second of two writers waits here, and fails."""
        values = (self.table, batch.number, batch.query, batch.content)
        try:
            link.run(f"INSERT INTO {self.batches} VALUES (?, ?, ?, ?)", *values)
        except Py4JJavaError as error:
            raise StateError(
                f"batch {batch.number} of table {self.table} could not be recorded in {self.batches}; if another query"
                f" fills the same table, stop one of the two: {error.java_exception.getMessage()}"
            ) from error
        oldest = batch.number - REMEMBERED
        link.run(f"DELETE FROM {self.batches} WHERE table_name = ? AND batch_id <= ?", self.table, oldest)

    def _merge(self, link: _Link, batch: Batch) -> None:
        t, s = self.table, self.stage
        weight, row = link.quote(WEIGHT), link.quote(ROW)
        columns = [link.quote(c) for c in batch.columns]
        touched = f"{row} IN (SELECT {row} FROM {s})"
        change = f"(SELECT {s}.{weight} FROM {s} WHERE {s}.{row} = {t}.{row})"
        link.run(f"UPDATE {t} SET {weight} = {weight} + {change} WHERE {touched}")
        every = ", ".join([*columns, weight, row])
        new = f"NOT EXISTS (SELECT 1 FROM {t} WHERE {t}.{row} = {s}.{row})"
        link.run(f"INSERT INTO {t} ({every}) SELECT {every} FROM {s} WHERE {new}")
        wrong = link.first(f"SELECT {', '.join(columns)}, {weight}, {change} FROM {t} WHERE {weight} < 0 AND {touched}")
        if wrong is not None:
            *values, left, change_ = wrong
            taken = -int(change_ or 0)
            values_by_name = dict(zip(batch.columns, values, strict=True))
            raise removed_too_often(self._name, values_by_name, batch.number, taken, int(left or 0) + taken)
        link.run(f"DELETE FROM {t} WHERE {weight} = 0 AND {touched}")

    def _by_key(self, batch: Batch) -> DataFrame:
        """One row per key: the operation, and the row afterwards (or before, if it is deleted)."""
        changed = changed_by_key(batch.frame(), self.key, batch.columns)
        unfit = (sf.col(CAME) > 1) | (sf.col(WENT) > 1)
        for key in columns_of(self.key):
            unfit = unfit | key.isNull()
        for found in changed.where(unfit).limit(1).collect():
            row = {k: found[k] for k in self.key}
            if None in row.values():
                fault = f"a row has no key: {shown(row)}; choose key columns that are never NULL"
            else:
                count = max(found[CAME], found[WENT])
                fault = (
                    f"{count} rows have the key {shown(row)}; choose key columns in which no two rows of the view agree"
                )
            raise ChangeError(f"batch {batch.number} for {self._name}: {fault}, or leave the key away")
        operation = (sf.col(CAME) - sf.col(WENT)).cast("int")
        last = sf.coalesce(AFTER, BEFORE)
        return changed.select(*(last.getField(c).alias(c) for c in batch.columns), operation.alias(OP))

    def _merge_by_key(self, link: _Link, batch: Batch) -> None:
        t, s, op = self.table, self.stage, link.quote(OP)
        keys = [link.quote(k) for k in self.key]
        same = " AND ".join(f"{t}.{k} = {s}.{k}" for k in keys)
        shown_keys = ", ".join(f"{s}.{k}" for k in keys)
        for operation, exists, fault in (
            (f"{op} < {INSERTED}", "NOT EXISTS", f"takes away the row with key {{}}, which {self._name} does not hold"),
            (f"{op} = {INSERTED}", "EXISTS", f"adds a row with key {{}}, which {self._name} holds already"),
        ):
            wrong = link.first(
                f"SELECT {shown_keys} FROM {s} WHERE {operation} AND {exists} (SELECT 1 FROM {t} WHERE {same})"
            )
            if wrong is not None:
                fact = fault.format(shown(dict(zip(self.key, wrong, strict=True))))
                raise ChangeError(
                    f"batch {batch.number} {fact}: changes and target do not belong together; fill a new table from the"
                    " beginning of the changes"
                )
        listed = ", ".join(keys)
        tuple_ = listed if len(keys) == 1 else f"({listed})"
        gone = f"SELECT {listed} FROM {s} WHERE {op} = {DELETED}"
        link.run(f"DELETE FROM {t} WHERE {tuple_} IN ({gone})")
        rest = [link.quote(c) for c in batch.columns if c not in self.key]
        if rest:
            assignments = ", ".join(f"{c} = (SELECT {s}.{c} FROM {s} WHERE {same})" for c in rest)
            changed = f"SELECT {listed} FROM {s} WHERE {op} = {UPDATED}"
            link.run(f"UPDATE {t} SET {assignments} WHERE {tuple_} IN ({changed})")
        every = ", ".join(link.quote(c) for c in batch.columns)
        link.run(f"INSERT INTO {t} ({every}) SELECT {every} FROM {s} WHERE {op} = {INSERTED}")

    # The database ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[_Link]:
        jvm: Any = self.spark._jvm
        loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        try:
            driver = jvm.java.lang.Class.forName(self.driver, True, loader).newInstance()
        except Py4JJavaError as error:
            raise PlanError(
                f"the JDBC driver {self.driver} is not on Spark's class path; name its jar in spark.jars, or its Maven"
                " coordinates in spark.jars.packages"
            ) from error
        login = jvm.java.util.Properties()
        for name, value in self.login.items():
            login.setProperty(name, value)
        connection = driver.connect(self.url, login)
        if connection is None:
            kind = ":".join(self.url.split(":")[:2])
            raise PlanError(f"the driver {self.driver} does not take URLs of {kind}:; give the driver of that database")
        try:
            yield _Link(connection, jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self.url))
        finally:
            connection.close()


class _Link:
    """A connection that reads values as text: the driver process only counts and names rows."""

    def __init__(self, connection: Any, dialect: Any) -> None:
        self.connection, self.dialect = connection, dialect

    def quote(self, name: str) -> str:
        return str(self.dialect.quoteIdentifier(name))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.setAutoCommit(False)
        try:
            yield
            self.connection.commit()
        except BaseException:
            self.connection.rollback()
            raise
        finally:
            self.connection.setAutoCommit(True)

    @contextmanager
    def _statement(self, sql: str, values: tuple[str | int, ...]) -> Iterator[Any]:
        statement = self.connection.prepareStatement(sql)
        try:
            for i, value in enumerate(values, 1):
                if isinstance(value, int):
                    statement.setLong(i, value)
                else:
                    statement.setString(i, value)
            yield statement
        finally:
            statement.close()

    def run(self, sql: str, *values: str | int) -> None:
        with self._statement(sql, values) as statement:
            statement.executeUpdate()

    def answers(self, sql: str) -> bool:
        """Whether the statement can be run: the only portable way to check whether a table exists."""
        try:
            self.columns(sql)
        except Py4JJavaError:
            return False
        return True

    def columns(self, sql: str) -> list[str]:
        with self._statement(sql, ()) as statement:
            about = statement.executeQuery().getMetaData()
            return [about.getColumnLabel(i + 1) for i in range(about.getColumnCount())]

    def first(self, sql: str, *values: str | int) -> list[str | None] | None:
        return next(self._rows(sql, values, 1), None)

    def all(self, sql: str, *values: str | int) -> list[list[str | None]]:
        return list(self._rows(sql, values, 0))

    def _rows(self, sql: str, values: tuple[str | int, ...], limit: int) -> Iterator[list[str | None]]:
        with self._statement(sql, values) as statement:
            statement.setMaxRows(limit)
            found = statement.executeQuery()
            width = found.getMetaData().getColumnCount()
            while found.next():
                yield [found.getString(i + 1) for i in range(width)]


def _identity(types: Mapping[str, DataType]) -> Column:
    """128 bits that differ where rows do: a hash of the values as text in which each type is exact."""
    texts = []
    for name, type_ in types.items():
        value = sf.col(quoted(name))
        if isinstance(type_, TimestampType):
            value = sf.unix_micros(value)  # not text, which depends on the session's time zone
        elif isinstance(type_, BinaryType):
            value = sf.hex(value)
        texts.append(value if isinstance(type_, StringType) else value.cast("string"))
    return sf.substring(sf.sha2(sf.to_json(sf.array(*texts)), 256), 1, 32)
