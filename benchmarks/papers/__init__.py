"""The experiments of the papers behind Freshet, at a size for this machine: `make bench-papers`."""
