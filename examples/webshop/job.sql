-- A web shop's database, followed through its change feed: upserts and deletes by key, in the order of their `lsn`.
--   python -m examples.make_data webshop && freshet run examples/webshop/job.sql --web

SET on_error = 'quarantine';

CREATE TABLE customer (id BIGINT PRIMARY KEY, name STRING, city STRING)
  USING json OPTIONS (path 'in/customer', changes '_change_type', sequence 'lsn BIGINT');
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT REFERENCES customer, status STRING)
  USING json OPTIONS (path 'in/orders', changes '_change_type', sequence 'lsn BIGINT');
CREATE TABLE item (order_id BIGINT REFERENCES orders, line INT, product STRING, quantity INT, price DECIMAL(10, 2),
                   PRIMARY KEY (order_id, line))
  USING json OPTIONS (path 'in/item', changes '_change_type', sequence 'lsn BIGINT');

CREATE MATERIALIZED VIEW revenue_by_city AS
SELECT c.city, COUNT(DISTINCT o.id) AS orders, SUM(i.quantity * i.price) AS revenue
FROM customer AS c JOIN orders AS o ON o.customer = c.id JOIN item AS i ON i.order_id = o.id
WHERE o.status = 'paid'
GROUP BY c.city;

CREATE MATERIALIZED VIEW waiting AS
SELECT o.id, c.name
FROM orders AS o LEFT JOIN customer AS c ON o.customer = c.id
WHERE o.status = 'open';

CREATE SINK cities FROM revenue_by_city USING console;
CREATE SINK kept FROM revenue_by_city USING materialized OPTIONS (path 'out/revenue_by_city');
CREATE SINK waiting_feed FROM waiting USING csv OPTIONS (path 'out/waiting', header 'true');
CREATE SINK bad FROM _quarantine USING json OPTIONS (path 'out/bad');
