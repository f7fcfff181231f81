"""Pharos' edge next to other programs that do the same work: `python -m loadtests.peers`."""
