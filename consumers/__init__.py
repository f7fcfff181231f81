"""Consumers: store each record of the event log in the column store exactly once."""
