"""The query as data, and every step from one query to an equal one."""
