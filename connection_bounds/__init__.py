"""Limits of a connection: bytes per read, and answers that the peer does not read."""
