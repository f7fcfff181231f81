"""From the log into the column store, each record once."""
