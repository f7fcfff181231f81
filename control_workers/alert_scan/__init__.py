"""The alert scan: evaluates conditions on rollups and present states, and writes what changed as alert events."""
