"""The benchmark of Pharos, of each part and of the whole platform: `python -m loadtests.bench`."""
