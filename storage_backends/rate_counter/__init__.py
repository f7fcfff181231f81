"""The rate counter: token buckets that enforce each account's ingest rate."""
