-- TPC-H on Spark from dbgen's text files: late orders by priority (Q4), and revenue by nation (Q5).
--   python -m examples.make_data tpch && freshet run examples/tpch/job.sql --checkpoint /tmp/tpch
-- Put more files into examples/tpch/in/orders and .../lineitem while it runs, and see the views move.

CREATE TABLE region (r_regionkey BIGINT PRIMARY KEY, r_name STRING, r_comment STRING)
  USING tbl OPTIONS (path 'in/region', delimiter '|');
CREATE TABLE nation (
  n_nationkey BIGINT PRIMARY KEY, n_name STRING, n_regionkey BIGINT REFERENCES region, n_comment STRING
) USING tbl OPTIONS (path 'in/nation', delimiter '|');
CREATE TABLE supplier (
  s_suppkey BIGINT PRIMARY KEY, s_name STRING, s_address STRING, s_nationkey BIGINT REFERENCES nation, s_phone STRING,
  s_acctbal DECIMAL(15, 2), s_comment STRING
) USING tbl OPTIONS (path 'in/supplier', delimiter '|');
CREATE TABLE customer (
  c_custkey BIGINT PRIMARY KEY, c_name STRING, c_address STRING, c_nationkey BIGINT REFERENCES nation, c_phone STRING,
  c_acctbal DECIMAL(15, 2), c_mktsegment STRING, c_comment STRING
) USING tbl OPTIONS (path 'in/customer', delimiter '|');
CREATE TABLE orders (
  o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT REFERENCES customer, o_orderstatus STRING, o_totalprice DECIMAL(15, 2),
  o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING
) USING tbl OPTIONS (path 'in/orders', delimiter '|');
CREATE TABLE lineitem (
  l_orderkey BIGINT REFERENCES orders, l_partkey BIGINT, l_suppkey BIGINT REFERENCES supplier, l_linenumber INT,
  l_quantity DECIMAL(15, 2), l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2), l_tax DECIMAL(15, 2),
  l_returnflag STRING, l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING,
  l_shipmode STRING, l_comment STRING,
  PRIMARY KEY (l_orderkey, l_linenumber)
) USING tbl OPTIONS (path 'in/lineitem', delimiter '|');

CREATE MATERIALIZED VIEW late_orders AS
SELECT o_orderpriority, COUNT(*) AS order_count
FROM orders
WHERE EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority;

CREATE MATERIALIZED VIEW revenue_by_nation AS
SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
GROUP BY n_name;

CREATE SINK shown FROM late_orders USING console;
CREATE SINK kept FROM revenue_by_nation USING materialized OPTIONS (path 'out/revenue_by_nation');
