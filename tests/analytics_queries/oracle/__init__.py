"""A second, slow implementation of the analytics report, written from docs/analytics.md alone."""
