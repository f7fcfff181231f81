"""Finds out which process listens on a port of this machine, and whether it is the expected instance."""
