"""Heartbeats and queues: what is watched, and the keys that report to it."""
