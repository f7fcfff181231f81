"""Transforms turn the records of a topic into rows. The same records always become the same
rows."""
