"""The delivery of notifications: leases, attempts, retries."""
