"""Measures the parts of Pharos one by one, and all of them together: `python -m loadtests.bench`."""
