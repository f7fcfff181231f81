"""Comparison of Pharos' edge with other programs that do the same work: `python -m loadtests.peers`."""
