"""The test suite: one folder per area, and modules that several areas share."""
