-- The TPC-H schema. Foreign keys are hints: they tell the planner which joins find at most one partner.

CREATE TABLE region (
    r_regionkey BIGINT PRIMARY KEY,
    r_name STRING,
    r_comment STRING
);

CREATE TABLE nation (
    n_nationkey BIGINT PRIMARY KEY,
    n_name STRING,
    n_regionkey BIGINT,
    n_comment STRING,
    FOREIGN KEY (n_regionkey) REFERENCES region (r_regionkey)
);

CREATE TABLE supplier (
    s_suppkey BIGINT PRIMARY KEY,
    s_name STRING,
    s_address STRING,
    s_nationkey BIGINT,
    s_phone STRING,
    s_acctbal DECIMAL(15, 2),
    s_comment STRING,
    FOREIGN KEY (s_nationkey) REFERENCES nation (n_nationkey)
);

CREATE TABLE customer (
    c_custkey BIGINT PRIMARY KEY,
    c_name STRING,
    c_address STRING,
    c_nationkey BIGINT,
    c_phone STRING,
    c_acctbal DECIMAL(15, 2),
    c_mktsegment STRING,
    c_comment STRING,
    FOREIGN KEY (c_nationkey) REFERENCES nation (n_nationkey)
);

CREATE TABLE part (
    p_partkey BIGINT PRIMARY KEY,
    p_name STRING,
    p_mfgr STRING,
    p_brand STRING,
    p_type STRING,
    p_size INT,
    p_container STRING,
    p_retailprice DECIMAL(15, 2),
    p_comment STRING
);

CREATE TABLE partsupp (
    ps_partkey BIGINT,
    ps_suppkey BIGINT,
    ps_availqty INT,
    ps_supplycost DECIMAL(15, 2),
    ps_comment STRING,
    PRIMARY KEY (ps_partkey, ps_suppkey),
    FOREIGN KEY (ps_partkey) REFERENCES part (p_partkey),
    FOREIGN KEY (ps_suppkey) REFERENCES supplier (s_suppkey)
);

CREATE TABLE orders (
    o_orderkey BIGINT PRIMARY KEY,
    o_custkey BIGINT,
    o_orderstatus STRING,
    o_totalprice DECIMAL(15, 2),
    o_orderdate DATE,
    o_orderpriority STRING,
    o_clerk STRING,
    o_shippriority INT,
    o_comment STRING,
    FOREIGN KEY (o_custkey) REFERENCES customer (c_custkey)
);

CREATE TABLE lineitem (
    l_orderkey BIGINT,
    l_partkey BIGINT,
    l_suppkey BIGINT,
    l_linenumber INT,
    l_quantity DECIMAL(15, 2),
    l_extendedprice DECIMAL(15, 2),
    l_discount DECIMAL(15, 2),
    l_tax DECIMAL(15, 2),
    l_returnflag STRING,
    l_linestatus STRING,
    l_shipdate DATE,
    l_commitdate DATE,
    l_receiptdate DATE,
    l_shipinstruct STRING,
    l_shipmode STRING,
    l_comment STRING,
    PRIMARY KEY (l_orderkey, l_linenumber),
    FOREIGN KEY (l_orderkey) REFERENCES orders (o_orderkey),
    FOREIGN KEY (l_partkey) REFERENCES part (p_partkey),
    FOREIGN KEY (l_suppkey) REFERENCES supplier (s_suppkey),
    FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp (ps_partkey, ps_suppkey)
);
