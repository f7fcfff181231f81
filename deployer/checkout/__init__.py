"""Checks out one revision of a Git repository into a folder, with the system's git."""
