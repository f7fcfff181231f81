"""The alert scan: evaluates conditions on rollups and present states, and writes changes as alert events."""
