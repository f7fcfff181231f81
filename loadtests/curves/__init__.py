"""Curves of the cost of an event against the number of batches, keys, partitions, stored rows, sites and heartbeats."""
