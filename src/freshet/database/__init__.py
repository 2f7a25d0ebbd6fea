"""The database in one process: tables, transactions, views and who hears of their changes."""
