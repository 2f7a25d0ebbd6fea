"""SQL text → bound statements."""
