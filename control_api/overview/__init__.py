"""Merges what needs attention from all sources into one list."""
