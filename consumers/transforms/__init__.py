"""Transforms: turn the records of a topic into rows, the same rows for the same records."""
