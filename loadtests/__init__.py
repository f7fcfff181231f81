"""Load tests that run real processes. `make bench` measures each part of Pharos."""
