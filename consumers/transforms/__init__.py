"""From records to rows: pure functions, the same rows for the same records."""
