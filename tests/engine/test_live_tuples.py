"""Live marks when several parents of one tuple stop being live at the same time: it stays live through the others."""

from __future__ import annotations

import freshet

TABLES = """
CREATE TABLE nation (n BIGINT PRIMARY KEY, name STRING);
CREATE TABLE supplier (s BIGINT PRIMARY KEY, s_nation BIGINT);
CREATE TABLE customer (c BIGINT PRIMARY KEY, c_nation BIGINT);
CREATE TABLE orders (o BIGINT PRIMARY KEY, o_customer BIGINT);
CREATE TABLE line (l_order BIGINT, l_number INT, l_supplier BIGINT, price INT, PRIMARY KEY (l_order, l_number))
"""
QUERY = """
SELECT n1.name AS supplied, n2.name AS bought, SUM(price) AS total
FROM nation n1, nation n2, supplier, customer, orders, line
WHERE s = l_supplier AND o = l_order AND c = o_customer AND s_nation = n1.n AND c_nation = n2.n
GROUP BY n1.name, n2.name
"""


def test_two_lines_of_one_order_by_one_supplier() -> None:
    db = freshet.connect()
    for statement in TABLES.split(";"):
        db.execute(statement)
    view = db.create_view("v", QUERY)
    db.apply(
        {
            "nation": [{"n": 1, "name": "A"}, {"n": 2, "name": "B"}],
            "supplier": [{"s": 50, "s_nation": 1}],
            "customer": [{"c": 7, "c_nation": 2}, {"c": 8, "c_nation": 2}],
            "orders": [{"o": 1, "o_customer": 7}, {"o": 2, "o_customer": 8}],
        }
    )
    db.apply({"line": [{"l_order": 2, "l_number": 1, "l_supplier": 50, "price": 10}]})
    db.apply({"line": [{"l_order": 1, "l_number": i, "l_supplier": 50, "price": 1} for i in (1, 2, 3)]})
    assert view.to_arrow().to_pylist() == [{"supplied": "A", "bought": "B", "total": 13}]
    db.execute("DELETE FROM customer WHERE c = 7")  # order 1 dies, and its lines with it; the supplier lives through 2
    assert view.to_arrow().to_pylist() == [{"supplied": "A", "bought": "B", "total": 10}]
    db.execute("UPDATE nation SET name = 'C' WHERE n = 1")
    assert view.to_arrow().to_pylist() == [{"supplied": "C", "bought": "B", "total": 10}]
