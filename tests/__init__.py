"""The test suite: one folder an area, beside what several areas share."""
