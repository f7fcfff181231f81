"""A stack: every part as a separate process on this machine, on real engines, for load tests and trials."""
