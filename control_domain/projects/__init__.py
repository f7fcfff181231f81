"""Projects, their environments, and the ingest keys of environments."""
