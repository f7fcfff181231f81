"""Finds the parts of an account that have changed, for live pages: topics, and a sweep that finds changed topics."""
