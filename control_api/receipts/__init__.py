"""What became of ingest batches."""
