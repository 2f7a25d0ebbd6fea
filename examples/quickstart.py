from decimal import Decimal

import freshet

db = freshet.connect()
db.execute("CREATE TABLE customer (id BIGINT PRIMARY KEY, name STRING)")
db.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, total DECIMAL(10,2))")

spending = db.create_view(
    "spending",
    """SELECT name, COUNT(*) AS orders, SUM(total) AS total
       FROM customer JOIN orders ON orders.customer = customer.id
       GROUP BY name""",
)


def show(tx):
    print(f"version {tx.version}")
    for row in tx.deltas["spending"].sort_by([("name", "ascending"), ("_weight", "ascending")]).to_pylist():
        print(f"  {row['_weight']:+d}  {row['name']:<5}  orders {row['orders']}  total {row['total']}")


spending.subscribe(show)
db.apply(  # one transaction over two tables
    {
        "customer": [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}],
        "orders": [
            {"id": 10, "customer": 1, "total": Decimal("25.00")},
            {"id": 11, "customer": 1, "total": Decimal("17.50")},
            {"id": 12, "customer": 2, "total": Decimal("8.00")},
        ],
    }
)
db.execute("UPDATE orders SET total = 9.00 WHERE id = 12")
db.apply({"orders": [{"id": 10, "_change_type": "delete"}, {"id": 11, "_change_type": "delete"}]})

print(spending.to_arrow().to_pylist())
