-- Credit cards: payments arrive as JSON, and some are taken back.
--   python -m examples.make_data fraud && freshet run examples/fraud/job.sql

CREATE TABLE card (id BIGINT PRIMARY KEY, owner STRING, daily_limit DECIMAL(10, 2))
  USING json OPTIONS (path 'in/card');
CREATE TABLE payment (
  id BIGINT PRIMARY KEY, card BIGINT REFERENCES card, country STRING, amount DECIMAL(10, 2), minute BIGINT
) USING json OPTIONS (path 'in/payment', changes '_change_type', maxFilesPerTrigger '1');

-- A card that pays in two countries within half an hour.
CREATE MATERIALIZED VIEW two_places AS
SELECT c.owner, a.card, a.id AS first_payment, b.id AS second_payment, a.country AS here, b.country AS there
FROM card AS c, payment AS a, payment AS b
WHERE c.id = a.card AND a.card = b.card AND a.country <> b.country AND a.minute <= b.minute AND b.minute - a.minute <= 30;

-- A card over its limit on one day.
CREATE MATERIALIZED VIEW over_limit AS
SELECT c.owner, c.id AS card, FLOOR(p.minute / 1440) AS day, SUM(p.amount) AS spent, c.daily_limit
FROM card AS c JOIN payment AS p ON p.card = c.id
GROUP BY c.owner, c.id, c.daily_limit, FLOOR(p.minute / 1440)
HAVING SUM(p.amount) > c.daily_limit;

CREATE SINK alarms FROM two_places USING console OPTIONS (rows '50');
CREATE SINK alarm_feed FROM two_places USING json OPTIONS (path 'out/two_places');
CREATE SINK limits FROM over_limit USING materialized OPTIONS (path 'out/over_limit');
