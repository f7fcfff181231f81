"""Counts what each account has left of its ingest rate."""
