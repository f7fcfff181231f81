"""Limits of a connection: bytes per read, and responses that the peer does not read."""
