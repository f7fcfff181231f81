"""The current states of heartbeats and queues. Consumers write them to the control plane's database."""
