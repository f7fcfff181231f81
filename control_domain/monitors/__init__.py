"""Heartbeats and queues, and the keys that report to them."""
