"""Every part as a process of its own on this machine, on real engines: for load tests and for trying it out."""
