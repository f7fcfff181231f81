"""The traffic of the demo shop: requests, logs, jobs and metrics, the same for the same time."""
