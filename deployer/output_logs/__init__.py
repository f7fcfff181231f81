"""Stores the output of deployed processes as log records, through the edge's ingest."""
