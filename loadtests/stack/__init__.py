"""A stack for load tests and trials: each part of Pharos runs as a process of its own on this machine, on
real engines."""
