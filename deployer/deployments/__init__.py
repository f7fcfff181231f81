"""Runs one deployment, from the queue to its end."""
