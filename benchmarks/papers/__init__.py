"""The experiments of the papers behind Freshet, at this machine's size: `make bench-papers`."""
