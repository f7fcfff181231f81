"""Bodies of ingest and OTLP requests, valid and mutated, and a comparison of the accelerator with Python."""
