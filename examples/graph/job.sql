-- A graph whose edges come and go: paths of two edges counted by where they begin, and the busiest vertices.
--   python -m examples.make_data graph && freshet run examples/graph/job.sql --web

CREATE TABLE edge (src BIGINT, dst BIGINT, PRIMARY KEY (src, dst))
  USING parquet OPTIONS (path 'in/edge', changes '_weight', maxFilesPerTrigger '2');

CREATE MATERIALIZED VIEW paths AS
SELECT a.src, COUNT(*) AS paths
FROM edge AS a JOIN edge AS b ON a.dst = b.src
GROUP BY a.src;

CREATE MATERIALIZED VIEW not_followed_back AS
SELECT a.src, a.dst
FROM edge AS a
WHERE NOT EXISTS (SELECT * FROM edge AS b WHERE b.src = a.dst AND b.dst = a.src);

CREATE SINK paths_feed FROM paths USING parquet OPTIONS (path 'out/paths');
CREATE SINK kept FROM not_followed_back USING materialized OPTIONS (path 'out/not_followed_back');
