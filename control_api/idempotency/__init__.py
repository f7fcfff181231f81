"""The first answers to requests with an `Idempotency-Key`."""
