"""A view inside a Spark declarative pipeline: what each customer spent, kept fresh while orders are inserted, updated
and deleted.

    pip install "pyspark[pipelines]" freshet
    cd examples/pipeline && spark-pipelines run --conf spark.sql.catalogImplementation=hive

The streams are read from files, as they might be from Kafka; `totals` is a table of the pipeline that holds the changes
of the view's answer. The next run continues where this one ends, for which Spark needs a catalog that stores `totals`:
here Hive's, in this folder. `maintain` is called outside of the query function, because Spark forbids inspecting a
DataFrame inside.
"""

from __future__ import annotations

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

from freshet.spark import maintain

spark = SparkSession.active()
files = spark.conf.get("files")

DDL = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING);
CREATE TABLE lines (order_id BIGINT, price DECIMAL(12,2))
"""
SQL = """
SELECT customer, COUNT(*) AS lines, SUM(price) AS total
FROM orders JOIN lines ON order_id = id
GROUP BY customer
"""

streams = {
    "orders": spark.readStream.schema("id BIGINT, customer STRING, _weight BIGINT").parquet(f"{files}/orders"),
    "lines": spark.readStream.schema("order_id BIGINT, price DECIMAL(12,2), _weight BIGINT").parquet(f"{files}/lines"),
}
changes = maintain(spark, SQL, streams, schema=DDL, shards=2)


@pipelines.table
def totals() -> DataFrame:
    return changes
