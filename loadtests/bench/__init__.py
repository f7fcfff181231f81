"""The benchmark of each part of Pharos and of the whole platform: `python -m loadtests.bench`."""
