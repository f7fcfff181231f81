"""Current states of heartbeats and queues in the control plane's database, written by the consumers."""
