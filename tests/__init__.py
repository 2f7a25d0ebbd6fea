"""The test suite: one folder an area, and what several areas share."""
