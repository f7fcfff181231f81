"""Merges the items that need attention from all sources into one list."""
