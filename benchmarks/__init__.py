"""Workloads, their data, and the figures `make bench` prints. Tests and examples take their TPC-H tables from here."""
