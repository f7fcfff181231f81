"""Curves of the cost of an event as a function of the number of batches, keys, partitions, stored rows, sites and
heartbeats."""
