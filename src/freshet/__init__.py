"""Freshet keeps SQL views fresh over changing tables."""
