"""The present state of heartbeats and queues, in the control plane's database, as the consumers write it."""
