"""Load tests on real processes: `make bench` measures each part."""
