"""The traffic of the demo shop: requests, logs, jobs and metrics. It is deterministic: the same time gives the same
traffic."""
