"""Stores what deployed processes print as log records, through the ingest of the edge."""
