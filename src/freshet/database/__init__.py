"""The database in one process: tables, transactions, views and the subscribers to their changes."""
