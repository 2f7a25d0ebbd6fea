"""Nexmark's queries q0 to q22 in Spark SQL, and in DuckDB's where it has no windows of time.

The benchmark writes rows of windows when they close; a view has the windows that there are, at any time. Queries over
windows are of the last minutes, so that their state is bounded. Parameters are those of few auctions.
"""

from __future__ import annotations

_WON = """
    SELECT a.id, a.item_name, a.seller, a.category, b.bidder, b.price, b.date_time
    FROM auction AS a JOIN bid AS b ON b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires
    QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) = 1"""

QUERIES: dict[int, tuple[str, str]] = {
    0: ("all bids", "SELECT auction, bidder, price, date_time, extra FROM bid"),
    1: ("prices in another currency", "SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid"),
    2: ("bids on some auctions", "SELECT auction, price FROM bid WHERE auction % 4 = 0"),
    3: (
        "who sells in some states",
        """SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    ),
    4: (
        "average closing price by category",
        """SELECT category, AVG(final) AS price FROM (
            SELECT a.id, a.category, MAX(b.price) AS final FROM auction AS a JOIN bid AS b ON b.auction = a.id
            WHERE b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category) GROUP BY category""",
    ),
    5: (
        "auctions with the most bids, in sliding windows",
        """WITH counted AS (
            SELECT auction, window.start AS since, COUNT(*) AS bids FROM bid WHERE date_time > NOW() - INTERVAL 1 MINUTE
            GROUP BY auction, window(date_time, '10 seconds', '2 seconds'))
        SELECT c.since, c.auction, c.bids FROM counted AS c
        JOIN (SELECT since, MAX(bids) AS most FROM counted GROUP BY since) AS m
        ON c.since = m.since AND c.bids = m.most""",
    ),
    6: (
        "average price of a seller's last ten auctions",
        f"""SELECT seller, id, AVG(price) OVER (
            PARTITION BY seller ORDER BY date_time, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS price
        FROM ({_WON})""",
    ),
    7: (
        "highest bids, in tumbling windows",
        """SELECT b.auction, b.price, b.bidder, b.date_time FROM bid AS b JOIN (
            SELECT window, MAX(price) AS most FROM bid WHERE date_time > NOW() - INTERVAL 1 MINUTE
            GROUP BY window(date_time, '10 seconds')) AS m
        ON b.price = m.most AND b.date_time >= m.window.start AND b.date_time < m.window.end
        WHERE b.date_time > NOW() - INTERVAL 1 MINUTE""",
    ),
    8: (
        "people who open an auction right after they registered",
        """SELECT p.id, p.name, p.since FROM (
            SELECT id, name, window.start AS since FROM person GROUP BY id, name, window(date_time, '10 seconds')) AS p
        JOIN (SELECT seller, window.start AS since FROM auction GROUP BY seller, window(date_time, '10 seconds')) AS a
        ON p.id = a.seller AND p.since = a.since""",
    ),
    9: ("winning bids", _WON),
    10: (
        "bids with the day and minute of a file",
        """SELECT auction, bidder, price, date_time, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS day,
            DATE_FORMAT(date_time, 'HH:mm') AS minute FROM bid""",
    ),
    11: (
        "bids in sessions of a bidder",
        """SELECT bidder, COUNT(*) AS bids, session_window.start AS since, session_window.end AS until FROM bid
        WHERE date_time > NOW() - INTERVAL 1 MINUTE GROUP BY bidder, session_window(date_time, '10 seconds')""",
    ),
    12: (
        "bids of a bidder, in windows of processing time",
        """SELECT bidder, COUNT(*) AS bids, window.start AS since FROM bid GROUP BY bidder,
        window(arrived, '10 seconds')""",
    ),
    13: (
        "bids joined to a side input",
        """SELECT b.auction, b.bidder, b.price, s.value FROM bid AS b JOIN side_input AS s ON b.auction % 10 = s.key""",
    ),
    14: (
        "bids of some prices, with a calculation",
        """SELECT auction, bidder, 0.908 * price AS price, CASE WHEN HOUR(date_time) BETWEEN 8 AND 18 THEN 'day'
            WHEN HOUR(date_time) <= 6 OR HOUR(date_time) >= 20 THEN 'night' ELSE 'other' END AS part,
            LENGTH(extra) - LENGTH(REPLACE(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    ),
    15: (
        "statistics by day",
        """SELECT CAST(date_time AS DATE) AS day, COUNT(*) AS bids, COUNT(*) FILTER (WHERE price < 1000) AS low,
            COUNT(*) FILTER (WHERE price >= 1000 AND price < 1000000) AS middle, COUNT(DISTINCT bidder) AS bidders,
            COUNT(DISTINCT bidder) FILTER (WHERE price < 1000) AS low_bidders, COUNT(DISTINCT auction) AS auctions,
            COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions
        FROM bid GROUP BY CAST(date_time AS DATE)""",
    ),
    16: (
        "statistics by channel and day",
        """SELECT channel, CAST(date_time AS DATE) AS day, MAX(DATE_FORMAT(date_time, 'HH:mm')) AS minute,
            COUNT(*) AS bids, COUNT(*) FILTER (WHERE price < 1000) AS low, COUNT(DISTINCT bidder) AS bidders,
            COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions
        FROM bid GROUP BY channel, CAST(date_time AS DATE)""",
    ),
    17: (
        "statistics by auction and day",
        """SELECT auction, CAST(date_time AS DATE) AS day, COUNT(*) AS bids,
            COUNT(*) FILTER (WHERE price < 1000) AS low, MIN(price) AS least,
            MAX(price) AS most, AVG(price) AS average, SUM(price) AS total
        FROM bid GROUP BY auction, CAST(date_time AS DATE)""",
    ),
    18: (
        "the last bid of each bidder on each auction",
        """SELECT auction, bidder, price, channel, date_time FROM bid QUALIFY
        ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price, channel) = 1""",
    ),
    19: (
        "the ten highest bids of each auction",
        """SELECT auction, bidder, price, number FROM (SELECT auction, bidder, price,
            ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bidder) AS number FROM bid)
        WHERE number <= 10""",
    ),
    20: (
        "bids with their auctions, of one category",
        """SELECT b.auction, b.bidder, b.price, b.channel, a.item_name, a.initial_bid, a.seller, a.expires
        FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10""",
    ),
    21: (
        "channel numbers, taken from addresses",
        """SELECT auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
            WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
            ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid WHERE LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')
            OR REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) <> ''""",
    ),
    22: (
        "parts of addresses",
        """SELECT auction, bidder, price, channel, SPLIT(url, '/')[2] AS host, SPLIT(url, '/')[3] AS folder,
            SPLIT(url, '/')[4] AS file FROM bid""",
    ),
}  # fmt: skip

#: The same for DuckDB, where it has no such window.
FOR_DUCKDB = {
    5: """WITH counted AS (
            SELECT auction, time_bucket(INTERVAL 2 SECOND, date_time) - INTERVAL 2 SECOND * k AS since, COUNT(*) AS bids
            FROM bid, range(5) AS r(k) WHERE date_time > NOW() - INTERVAL 1 MINUTE GROUP BY ALL)
        SELECT since, auction, bids FROM counted QUALIFY bids = MAX(bids) OVER (PARTITION BY since)""",
    7: """SELECT auction, price, bidder, date_time FROM bid WHERE date_time > NOW() - INTERVAL 1 MINUTE
        QUALIFY price = MAX(price) OVER (PARTITION BY time_bucket(INTERVAL 10 SECOND, date_time))""",
    8: """SELECT p.id, p.name, time_bucket(INTERVAL 10 SECOND, p.date_time) FROM person AS p WHERE EXISTS (
            SELECT 1 FROM auction AS a WHERE a.seller = p.id
            AND time_bucket(INTERVAL 10 SECOND, a.date_time) = time_bucket(INTERVAL 10 SECOND, p.date_time))""",
    11: """SELECT bidder, COUNT(*), MIN(date_time), MAX(date_time) + INTERVAL 10 SECOND FROM (
            SELECT *, SUM(fresh) OVER (PARTITION BY bidder ORDER BY date_time ROWS UNBOUNDED PRECEDING) AS number FROM (
                SELECT bidder, date_time, CASE WHEN date_time <= INTERVAL 10 SECOND
                    + LAG(date_time) OVER (PARTITION BY bidder ORDER BY date_time) THEN 0 ELSE 1 END AS fresh
                FROM bid WHERE date_time > NOW() - INTERVAL 1 MINUTE)) GROUP BY bidder, number""",
    12: "SELECT bidder, COUNT(*), time_bucket(INTERVAL 10 SECOND, arrived) FROM bid GROUP BY ALL",
}  # fmt: skip
