"""Freshet next to other engines on the same streams: `make bench-peers`."""
