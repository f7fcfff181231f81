"""Measures curves: what an event costs, depending on the number of batches, keys, partitions, stored rows, sites and
heartbeats."""
