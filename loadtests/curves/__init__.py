"""What an event costs as batches, keys, partitions, stored rows, sites and heartbeats become more."""
