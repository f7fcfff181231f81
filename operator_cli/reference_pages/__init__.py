"""Writes the pages of `docs/reference/` that the code determines: commands, settings and metrics."""
