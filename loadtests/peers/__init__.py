"""Compares Pharos' edge with other programs that do the same work (its peers): `python -m
loadtests.peers`."""
