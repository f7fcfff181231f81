"""A second, slow implementation of the analytics report, written from docs/reference/analytics.md alone."""
