"""A stack: every part as a process of its own on this machine, on real engines, for load tests and trials."""
